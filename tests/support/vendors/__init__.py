"""Vendors: worlds with tools as somebody sells them, and the overlays that their users would write.

A vendor is a module of plain functions over one JSON document, its world. `host.py` serves one over
MCP in a process of its own and keeps the world in a file, where strangers change it too and a test
reads it. A module has:

    OVERLAY   the contracts, as YAML
    READS     the tools that change nothing
    TOOLS     the others and those, by name: (world, **arguments) -> answer
    start()   the world as it is at first
    leaves()  the world leaf by leaf, named as claims are: kind, key, part, and on
    acts()    calls that are possible now, drawn by a `random.Random`; `mark` is in each new value
    strange() what a person may do besides, as calls of `STRANGE`
"""
