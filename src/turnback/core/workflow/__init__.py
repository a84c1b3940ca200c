"""The canvas document, its edits, its diff, its content addresses. Its rules are in protocol.md 2.

shape     which members must be of which type; unknown ones are kept as they are
document  `Workflow`: immutable, versions share what they have in common
manifest  content addresses: how a workflow is cut into blobs
editing   edits applied, all or nothing
diff      what differs between two versions, and whether edits meet another's
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

__all__ = [
    "EMPTY",
    "Assembly",
    "Change",
    "Changes",
    "Diff",
    "Touch",
    "Workflow",
    "apply",
    "assemble",
    "conflicts",
    "diff",
    "load",
    "load_json",
    "operators_in",
    "parts",
    "touches",
]
