"""What is left of purged records: where they were and what they were called, nothing they said.

`purged_records` tells a step that was purged from one that never was. `erased_at` is set when a
purge or a sweep has removed everything that it is to remove. `sessions` may be large and in use, so
its index is made concurrently, in a statement that can be run again where it was cut off. Without
what is left a fork cannot be gone on with after what was purged: going down is refused then.

Revision ID: 0008
Revises: 0007
"""

from alembic import op
from sqlalchemy import text

from turnback.core.errors import DowngradeRefused
from turnback.store.altering import patiently

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

DELETED = """create index concurrently sessions_deleted on sessions (root_id, deleted_at)
where deleted_at is not null"""

TABLE = """
create table purged_records (
    root_id uuid not null,
    branch_id uuid not null,
    seq integer not null,
    id uuid not null,
    turn_id uuid not null,
    turn_index integer not null,
    primary key (root_id, branch_id, seq)
)
"""

PURGED = "there are purged records, by whose places forks find what is left of them"

REFUSED = f"""do $$ begin
    if exists (select from purged_records) then raise exception '{PURGED}'; end if;
end $$"""


def upgrade() -> None:
    with op.get_context().autocommit_block():
        patiently("alter table sessions add column if not exists erased_at timestamptz")
        op.execute("drop index concurrently if exists sessions_deleted")
        op.execute(DELETED)
    op.execute(TABLE)


def downgrade() -> None:
    patiently("drop index sessions_deleted")
    patiently("alter table sessions drop column erased_at")
    op.execute("lock table purged_records in access exclusive mode")
    if op.get_context().as_sql:
        op.execute(REFUSED)
    elif op.get_bind().scalar(text("select exists (select from purged_records)")):
        raise DowngradeRefused(
            f"Migration `{revision}` cannot be taken back: {PURGED}; stay at it, or restore a"
            " backup from before the first purge"
        )
    op.execute("drop table purged_records")
