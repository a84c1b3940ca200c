"""The demo world: a mailbox, a calendar, contacts, payments and a chat that are nobody's.

`python -m turnback.demo FILE` is an MCP server over it, which the service starts as it would any
other; a person changes the same FILE by the routes under `/demo`. It imports nothing of ours.
"""
