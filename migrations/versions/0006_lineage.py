"""Forks: where a session came from. A fork is one row here, however long its history.

`sources` are the sessions whose records the inherited prefix may hold. A row never changes. Going
down would leave every fork without its prefix, so it is refused while there is one.

Revision ID: 0006
Revises: 0005
"""

from alembic import op
from sqlalchemy import text

from turnback.core.errors import DowngradeRefused

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

TABLE = """
create table session_lineage (
    root_id uuid not null,
    session_id uuid not null,
    parent_id uuid not null,
    boundary_turn uuid,
    boundary_position text check (boundary_position in ('before', 'after')),
    inherited_turn_count integer not null check (inherited_turn_count >= 0),
    cutoff_branch uuid,
    cutoff_seq integer not null,
    cutoff_step uuid,
    depth integer not null check (depth > 0),
    sources uuid[] not null,
    fingerprint bytea not null,
    description text,
    primary key (root_id, session_id),
    constraint session_lineage_parent check (parent_id <> session_id),
    constraint session_lineage_boundary
        check ((boundary_turn is null) = (boundary_position is null)),
    constraint session_lineage_count
        check ((inherited_turn_count = 0) = (cutoff_branch is null)),
    constraint session_lineage_cutoff check ((cutoff_branch is null) = (cutoff_seq = 0)
        and (cutoff_step is null) = (cutoff_seq = 0)
        and (cardinality(sources) = 0) = (cutoff_seq = 0))
)
"""

FORKS = "there are forks, which cannot be read without their lineage"

REFUSED = f"""do $$ begin
    if exists (select from session_lineage) then raise exception '{FORKS}'; end if;
end $$"""


def upgrade() -> None:
    op.execute(TABLE)
    op.execute(
        "create index session_lineage_by_parent on session_lineage (root_id, parent_id, session_id)"
    )


def downgrade() -> None:
    op.execute("lock table session_lineage in access exclusive mode")
    if op.get_context().as_sql:
        op.execute(REFUSED)
    elif op.get_bind().scalar(text("select exists (select from session_lineage)")):
        raise DowngradeRefused(
            f"Migration `{revision}` cannot be taken back: {FORKS}; stay at it, or restore a"
            " backup from before the first of them"
        )
    op.execute("drop table session_lineage")
