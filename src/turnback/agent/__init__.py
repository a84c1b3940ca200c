"""The ReAct loop: models, the canvas tools, the offline stand-in.

The loop yields deltas and step drafts and commits nothing: whoever runs it makes each draft
durable before asking for the next.
"""
