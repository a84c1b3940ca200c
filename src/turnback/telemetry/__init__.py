"""What an administrator is told of the service: which ids a line is about, metrics, spans.

Every room but `core` may tell it something; it asks nothing of anyone, and it never holds content:
no prompt, argument, workflow, name or key, only ids, kinds, counts and times.
"""
