"""Contracts: what a tool declares of itself, and what follows from it for one call (undo.md 1).

`model.py` is the one declarative model, parsed alike from the decorator, an overlay and `_meta`.
`checks.py` refuses what contradicts itself, `together.py` what does not go with the other contracts
of its server, `fitting.py` what does not fit the tools that it has. `pointers.py` finds values by
RFC 9535 JSONPath, `templates.py` fills them in, `builder.py` writes them in Python. `states.py`
makes leaves of what a read answers; `choose.py` says what one call touches, how far it can be taken
back and by which calls, `answers.py` what an answer to it says. `version.py` names a contract and a
tool by their hashes. All of it is pure.
"""
