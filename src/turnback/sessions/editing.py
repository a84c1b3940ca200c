"""Plans of people's edits of the canvas: on the page, and by a host application's document."""

from __future__ import annotations

from turnback.core.edits import Edit, ReplaceWorkflow
from turnback.core.errors import EditConflict, PreconditionFailed
from turnback.core.operators import CATALOG
from turnback.core.tree import NewIds
from turnback.core.workflow import Workflow, apply, conflicts, edits_between
from turnback.sessions import payloads
from turnback.sessions.commands import EditWorkflow, PutWorkflow
from turnback.sessions.memory import Memory
from turnback.sessions.plans import Plan
from turnback.settings import Settings
from turnback.store.ids import new_id
from turnback.store.rows import Idle


async def edited(
    memory: Memory, settings: Settings, command: EditWorkflow, ids: NewIds, by: str
) -> Plan | None:
    """Edits that `by` made on the workflow at some step; None: they change nothing.

    Raises `Busy`, `UnknownStep`, `EditConflict`, `InvalidEdit`, `TooLarge`, `SnapshotMissing`.
    """
    tree, edits, base_head_id = memory.tree, command.edits, command.base_head_id
    tree.edit(ids, tree.workflow, by=by)  # busy is said before anything about the edit
    base_hash = tree.workflow_at(tree.position(base_head_id).step_id)
    here = memory.present
    if base_hash != here.hash:
        base = await memory.workflow_of(base_hash)
        if both := conflicts(edits, base=base, head=here):
            raise EditConflict(
                "What you edited has changed meanwhile; look at it again",
                headId=tree.head.step_id,
                baseHeadId=base_head_id,
                conflicts=[{"kind": kind, "id": id_} for kind, id_ in sorted(both)],
            )
    after = apply(
        here,
        edits,
        new_link_id=new_link_id,
        known_types=CATALOG.known,
        max_bytes=settings.max_workflow_bytes,
        max_depth=settings.max_json_depth,
    )
    if after.hash == here.hash:
        return None
    return _edited(memory, edits, after, ids, by)


def put(
    memory: Memory, settings: Settings, command: PutWorkflow, ids: NewIds, by: str
) -> Plan | None:
    """A document in place of the one at HEAD, as the edits it comes to; None: it is equal.

    Raises `Busy`, `PreconditionFailed`.
    """
    tree, workflow = memory.tree, command.workflow
    tree.edit(ids, tree.workflow, by=by)  # busy is said before anything about the document
    if command.if_match is not None and tree.workflow not in command.if_match:
        raise PreconditionFailed(
            "The workflow has changed since you read it; read it again", etag=tree.workflow
        )
    if workflow.hash == tree.workflow:
        return None
    whole: tuple[Edit, ...] = (ReplaceWorkflow(workflow=workflow.content()),)
    here = memory.workflow
    edits = whole if here is None else edits_between(here, workflow)
    if len(edits) > settings.max_edits:
        edits = whole
    return _edited(memory, edits, workflow, ids, by)


def _edited(memory: Memory, edits: tuple[Edit, ...], after: Workflow, ids: NewIds, by: str) -> Plan:
    return Plan(
        guard=Idle(memory.revision),
        events=memory.tree.edit(ids, after.hash, by=by),
        payload=payloads.of_edit(edits),
        after=after,
        blobs=after.blobs(since=memory.workflow),
        turn_id=ids.turn,
    )


def new_link_id() -> str:
    """A link id that no workflow has or will have."""
    return f"link-{new_id()}"
