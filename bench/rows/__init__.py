"""What is measured, one file each: `WHAT` says it in a sentence, `measure` gives its rows."""

from __future__ import annotations

from types import ModuleType

from bench.rows import (
    broadcast,
    copies,
    crowd,
    fork,
    installation,
    load,
    loop,
    memory,
    outside,
    pages,
    revert,
    reverts,
    rivals,
    size,
    start,
    step,
    undo,
)

ROWS: dict[str, ModuleType] = {
    "step": step,
    "revert": revert,
    "fork": fork,
    "copies": copies,
    "pages": pages,
    "installation": installation,
    "size": size,
    "memory": memory,
    "broadcast": broadcast,
    "crowd": crowd,
    "loop": loop,
    "outside": outside,
    "undo": undo,
    "start": start,
    "load": load,
    "reverts": reverts,
    "rivals": rivals,
}
