"""The row of a session: its columns, and what they say."""

from __future__ import annotations

import asyncpg
import orjson

from turnback.core.principal import Visibility
from turnback.core.run_settings import RunSettings
from turnback.core.tree import State
from turnback.store import pending, tree_rows
from turnback.store.rows import SessionKey, SessionRow

COLUMNS = f"""root_id, id, project_id, owner, name, model, head_branch, head_seq, head_step,
    redo_depth, redo_top, revision, events_floor, state, fence, workflow_hash, initial_hash,
    created_at, updated_at, archived_at, run_settings, visibility, {pending.COLUMN}"""

SESSION = f"""select {COLUMNS} from sessions
where root_id = $1::uuid and id = $2::uuid and deleted_at is null"""


def session_row(row: asyncpg.Record) -> SessionRow:
    """A row of `COLUMNS`."""
    return SessionRow(
        key=SessionKey(row["root_id"], row["id"]),
        project_id=row["project_id"],
        owner=row["owner"],
        name=row["name"],
        model=row["model"],
        head=tree_rows.position(row["head_branch"], row["head_seq"], row["head_step"]),
        redo_depth=row["redo_depth"],
        revision=row["revision"],
        events_floor=row["events_floor"],
        state=State(row["state"]),
        fence=row["fence"],
        workflow_hash=row["workflow_hash"].hex(),
        initial_hash=row["initial_hash"].hex(),
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        archived_at=row["archived_at"],
        settings=RunSettings.of(orjson.loads(row["run_settings"] or b"{}")),
        visibility=Visibility(row["visibility"]),
        pending=pending.from_row(row["pending_action"]),
    )
