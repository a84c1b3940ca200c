"""Undo: plan, order, the life of one compensation, outcome, residue (undo.md 3–6).

Pure, as all of the core: effects and what was seen of the world go in; plans, the next action and
rows come out. The runner (`turnback.undo`) carries the actions out and stores the rows.
"""
