"""The canvas document, its edits, its diff, its content addresses. Its rules are in protocol.md 2.

shape     which members must be of which type; unknown ones are kept as they are
document  `Workflow`: immutable, versions share what they have in common
manifest  content addresses: how a workflow is cut into blobs
editing   edits applied, all or nothing
diff      what differs between two versions
meeting   whether edits meet what another has changed
replay    what has changed between two versions, made again on a third
reach     which blobs some versions are made of
"""

from turnback.core.workflow.diff import Change, Changes, Diff, Touch, diff
from turnback.core.workflow.document import (
    EMPTY,
    Assembly,
    Workflow,
    assemble,
    load,
    load_json,
)
from turnback.core.workflow.editing import apply
from turnback.core.workflow.manifest import operators_in, parts
from turnback.core.workflow.meeting import conflicts, touches
from turnback.core.workflow.reach import Reach
from turnback.core.workflow.replay import edits_between, replay
from turnback.core.workflow.shape import SCHEMA

__all__ = [
    "EMPTY",
    "SCHEMA",
    "Assembly",
    "Change",
    "Changes",
    "Diff",
    "Reach",
    "Touch",
    "Workflow",
    "apply",
    "assemble",
    "conflicts",
    "diff",
    "edits_between",
    "load",
    "load_json",
    "operators_in",
    "parts",
    "replay",
    "touches",
]
