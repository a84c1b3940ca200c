"""The evaluation of undo: AgentDojo's tasks made, taken back, and the world compared (undo.md 8).

It runs in an environment of its own, `bench/undo/.venv`; `make undo-eval` makes it and runs all.
"""
