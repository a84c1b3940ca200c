"""The tables of a live session.

Every table under a lineage has `root_id` first in its key, so that the schema distributes by it;
the big ones are partitioned by its hash. Records, events and blobs carry no foreign keys: each
would cost a look-up per step (lineage.md 2).

Revision ID: 0001
Revises:
"""

from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

PARTITIONS = 16
PARTITIONED = ("records", "blobs", "session_events")

TABLES = """
create table installation (
    one boolean primary key default true check (one),
    stream_epoch uuid not null default gen_random_uuid()
);
insert into installation default values;

create table session_directory (
    id uuid primary key,
    project_id text not null,
    root_id uuid not null
);

create table families (
    root_id uuid primary key,
    project_id text not null,
    family_epoch bigint not null default 0
);

create table sessions (
    root_id uuid not null,
    id uuid not null,
    project_id text not null,
    owner text not null,
    name text not null,
    model text not null,
    head_branch uuid,
    head_seq integer not null default 0,
    head_step uuid,
    redo_top integer not null default 0,
    redo_depth integer not null default 0,
    revision bigint not null default 0,
    events_floor bigint not null default 0,
    state text not null default 'AVAILABLE',
    fence bigint not null default 0,
    workflow_hash bytea not null,
    initial_hash bytea not null,
    pending_action json,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    archived_at timestamptz,
    deleted_at timestamptz,
    purged_at timestamptz,
    primary key (root_id, id),
    constraint sessions_state check (state in ('AVAILABLE', 'GENERATING', 'STOPPING')),
    constraint sessions_head check ((head_step is null) = (head_seq = 0)
        and (head_branch is null) = (head_seq = 0)),
    constraint sessions_redo check (redo_depth between 0 and redo_top)
) with (fillfactor = 70);
create index sessions_by_project on sessions (project_id, id);

create table branches (
    root_id uuid not null,
    id uuid not null,
    session_id uuid not null,
    cutoff_branch uuid,
    cutoff_seq integer not null,
    cutoff_step uuid,
    src uuid[] not null,
    lo integer[] not null,
    hi bigint[] not null,
    below uuid,
    segment_count integer not null,
    primary key (root_id, id),
    constraint branches_cutoff check ((cutoff_branch is null) = (cutoff_seq = 0)
        and (cutoff_step is null) = (cutoff_seq = 0)),
    constraint branches_row check (cardinality(src) between 1 and 64
        and cardinality(lo) = cardinality(src) and cardinality(hi) = cardinality(src))
);
create index branches_by_session on branches (root_id, session_id);

create table turns (
    root_id uuid not null,
    id uuid not null,
    session_id uuid not null,
    turn_key text,
    kind text not null check (kind in ('prompt', 'edit')),
    status text not null
        check (status in ('running', 'waiting', 'complete', 'stopped', 'failed', 'interrupted')),
    first_branch uuid not null,
    first_seq integer not null,
    first_step uuid not null,
    last_seq integer,
    effective_index integer not null check (effective_index >= 0),
    principal text not null,
    created_at timestamptz not null,
    sealed_at timestamptz,
    primary key (root_id, id),
    constraint turns_key unique (root_id, session_id, turn_key)
);

create table records (
    root_id uuid not null,
    branch_id uuid not null,
    seq integer not null check (seq > 0),
    id uuid not null,
    session_id uuid not null,
    turn_id uuid not null,
    step_index integer not null check (step_index >= 0),
    role text not null check (role in ('user', 'agent')),
    parent_id uuid,
    before_hash bytea not null,
    after_hash bytea not null,
    end_reason text
        check (end_reason in ('complete', 'stopped', 'failed', 'limit', 'interrupted')),
    event_seq bigint not null,
    principal text not null,
    created_at timestamptz not null,
    payload json not null,
    primary key (root_id, branch_id, seq),
    constraint records_id unique (root_id, id)
) partition by hash (root_id);

create table blobs (
    root_id uuid not null,
    hash bytea not null,
    data bytea not null,
    primary key (root_id, hash)
) partition by hash (root_id);

create table session_events (
    root_id uuid not null,
    session_id uuid not null,
    event_seq bigint not null,
    commit_id uuid not null,
    type text not null,
    data json not null,
    created_at timestamptz not null,
    primary key (root_id, session_id, event_seq)
) partition by hash (root_id);

create table session_redo (
    root_id uuid not null,
    session_id uuid not null,
    n integer not null,
    branch_id uuid,
    seq integer not null,
    step_id uuid,
    primary key (root_id, session_id, n)
);

create table session_requests (
    root_id uuid not null,
    session_id uuid not null,
    principal text not null,
    request_id text not null,
    fingerprint bytea not null,
    answer json not null,
    event_seq bigint not null,
    created_at timestamptz not null,
    constraint session_requests_pkey primary key (root_id, session_id, principal, request_id)
);

create table run_leases (
    root_id uuid not null,
    session_id uuid not null,
    node_id uuid not null,
    fence bigint not null,
    heartbeat_at timestamptz not null,
    primary key (root_id, session_id)
);
"""


def upgrade() -> None:
    for statement in TABLES.split(";\n"):
        if statement.strip():
            op.execute(statement)
    for table in PARTITIONED:
        for n in range(PARTITIONS):
            op.execute(
                f"create table {table}_{n:02} partition of {table} "
                f"for values with (modulus {PARTITIONS}, remainder {n})"
            )


def downgrade() -> None:
    for table in (
        "run_leases",
        "session_requests",
        "session_redo",
        "session_events",
        "blobs",
        "records",
        "turns",
        "branches",
        "sessions",
        "families",
        "session_directory",
        "installation",
    ):
        op.execute(f"drop table {table}")
