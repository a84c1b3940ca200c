"""The runner: it carries out a plan of `core/undo` through `tools/` (undo.md 5).

What is to be done, in which order and what has come of it is the core's to say; this room claims a
run, makes the calls, and writes down each of them before and after.
"""
