"""Tools from outside: the registry, contracts and overlays, MCP servers, the one call path.

Every call that may act on the world goes through `calls.py`, which writes its intent before it and
its result after it (undo.md 2). Nothing else here or above calls a tool.
"""
