"""Sessions and forks listed by when they were made; drafts that say whose words they are.

A fork and a grant get the time at which their session was made, a list's index this time before
the id. A draft that waits says whether it quotes the prompt that it is for, since a purge of this
takes it along. What was written before gets both from what is there. Databases that had 0005 or
0006 while these made the columns themselves have them, and the times with them: each statement is
the same for both.

New indexes are there before the old ones go, so that no list is ever read without one.

Revision ID: 0010
Revises: 0009
"""

from alembic import op

from turnback.store.altering import patiently

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

NOT_KNOWN = "-infinity"
"""A time that no session was made at: the column's own for who does not say one."""

TIMES = {"session_lineage": "created_at", "session_grants": "session_created_at"}

MADE = """update {table} t set {column} = s.created_at from sessions s
where s.root_id = t.root_id and s.id = t.session_id and t.{column} = '{not_known}'"""

QUOTED = """update sessions s set pending_action = case
    when p.said is not null then (s.pending_action::jsonb
        || jsonb_build_object('quoted', p.said = s.pending_action ->> 'draft'))::json end
from session_lineage l left join lateral (
    select r.payload ->> 'content' as said from turns t
    join sessions o on o.root_id = t.root_id and o.id = t.session_id and o.purged_at is null
    join records r on r.root_id = t.root_id and r.branch_id = t.first_branch
        and r.seq = t.first_seq
    where t.root_id = l.root_id and t.id = l.boundary_turn) p on true
where l.root_id = s.root_id and l.session_id = s.id
    and s.pending_action is not null and s.pending_action -> 'quoted' is null"""
"""Where the prompt was purged nobody can say whether the draft repeats it, so it goes too."""

NEWEST = {
    "sessions_newest": """sessions
(project_id, visibility, (archived_at is not null), created_at, id) where deleted_at is null""",
    "sessions_private_newest": """sessions (project_id, owner, created_at, id)
where deleted_at is null and visibility = 'private'""",
    "session_grants_newest": """session_grants
(project_id, principal_id, session_created_at, session_id)""",
    "session_lineage_newest": "session_lineage (root_id, parent_id, created_at, session_id)",
}

BEFORE = {
    "sessions_listed": """sessions
(project_id, visibility, (archived_at is not null), id) where deleted_at is null""",
    "sessions_private": """sessions (project_id, owner, id)
where deleted_at is null and visibility = 'private'""",
    "session_grants_by_principal": "session_grants (project_id, principal_id, session_id)",
    "session_lineage_by_parent": "session_lineage (root_id, parent_id, session_id)",
}


def upgrade() -> None:
    with op.get_context().autocommit_block():
        for table, column in TIMES.items():
            patiently(
                f"alter table {table} add column if not exists {column} timestamptz not null"
                f" default '{NOT_KNOWN}'"
            )
            op.execute(MADE.format(table=table, column=column, not_known=NOT_KNOWN))
            patiently(f"alter table {table} alter column {column} drop default")
        op.execute(QUOTED)
        replace(NEWEST, BEFORE)


def downgrade() -> None:
    with op.get_context().autocommit_block():
        replace(BEFORE, NEWEST)
        for table, column in TIMES.items():
            patiently(f"alter table {table} drop column if exists {column}")


def replace(made: dict[str, str], dropped: dict[str, str]) -> None:
    """Make these indexes, and drop those; as often as it takes, if it was cut off."""
    for name, of in made.items():
        op.execute(f"drop index concurrently if exists {name}")
        op.execute(f"create index concurrently {name} on {of}")
    for name in dropped:
        op.execute(f"drop index concurrently if exists {name}")
