"""Idempotency keys: what a POST that creates has answered, so that a retry is answered the same.

Not under a root: a key is claimed before it is known what is made.

Revision ID: 0002
Revises: 0001
"""

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

TABLE = """
create table idempotency_keys (
    project_id text not null,
    principal text not null,
    key text not null,
    fingerprint bytea not null,
    reserved_id uuid not null,
    node_id uuid,
    claimed_at timestamptz not null default clock_timestamp(),
    created_at timestamptz not null default clock_timestamp(),
    status integer,
    location text,
    body json,
    primary key (project_id, principal, key),
    constraint idempotency_keys_answer check ((status is null) = (body is null))
)
"""


def upgrade() -> None:
    op.execute(TABLE)
    op.execute("create index idempotency_keys_by_age on idempotency_keys (created_at)")


def downgrade() -> None:
    op.execute("drop table idempotency_keys")
