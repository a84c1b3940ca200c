"""The log of what was done outside, and what undoing it came to (undo.md 2–6).

Contracts are kept as they were when a call was made under them. Under a root: the step that is open
while its outside calls run, what waits for a person, effects and their calls, plans, undo runs,
compensations and their calls, residues. Not under one, because other sessions write the same world:
the ledger of leaf writes, and the locks on resources, whose fences rise for ever. Arguments and
states that have to be kept secret are in a `bytea`, encrypted.

Going down is refused while there are effects: nobody could take them back any more.

Revision ID: 0011
Revises: 0010
"""

from alembic import op
from sqlalchemy import text

from turnback.core.errors import DowngradeRefused

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

TABLES = """
create table contracts (
    hash text primary key,
    data json not null
);

create table open_steps (
    root_id uuid not null,
    session_id uuid not null,
    id uuid not null,
    turn_id uuid not null,
    fence bigint not null,
    draft json,
    secret bytea,
    opened_at timestamptz not null,
    primary key (root_id, session_id),
    constraint open_steps_draft check ((draft is null) <> (secret is null))
);

create table approvals (
    root_id uuid not null,
    session_id uuid not null,
    step_id uuid not null,
    tool_call_id text not null,
    turn_id uuid not null,
    connection text not null,
    tool text not null,
    class text not null
        check (class in ('read', 'reversible', 'compensable', 'irreversible')),
    args json not null,
    args_hash text not null,
    because text,
    edited json,
    status text not null check (status in ('waiting', 'approved', 'denied', 'expired', 'dropped')),
    asked_at timestamptz not null,
    expires_at timestamptz not null,
    decided_by text,
    decided_at timestamptz,
    primary key (root_id, step_id, tool_call_id),
    constraint approvals_decided check ((decided_at is null) = (status = 'waiting'))
);
create index approvals_by_session on approvals (root_id, session_id);
create index approvals_waiting on approvals (expires_at) where status = 'waiting';

create table effects (
    root_id uuid not null,
    id uuid not null,
    session_id uuid not null,
    turn_id uuid not null,
    step_id uuid not null,
    number integer not null check (number > 0),
    tool_call_id text not null,
    connection text not null,
    tool text not null,
    contract text,
    class text not null
        check (class in ('read', 'reversible', 'compensable', 'irreversible')),
    contract_case integer,
    state text not null check (state in
        ('held', 'intent', 'done', 'done_unchanged', 'failed_clean', 'failed_dirty', 'in_doubt')),
    standing text check (standing in
        ('in_force', 'reverted', 'compensated', 'cancelled', 'in_doubt', 'partly')),
    args json not null,
    proposed json,
    about json not null,
    states json,
    secret bytea,
    key text not null,
    key_until timestamptz,
    fence bigint not null,
    at timestamptz not null,
    ended_at timestamptz,
    outcome text check (outcome in ('replied', 'failed', 'not_sent', 'lost')),
    hold_until timestamptz,
    cancel_until timestamptz,
    settles_at timestamptz,
    claimed_by uuid,
    claimed_until timestamptz,
    undo_id uuid,
    restored_at timestamptz,
    purged_at timestamptz,
    primary key (root_id, id),
    constraint effects_number unique (root_id, session_id, number),
    constraint effects_ended check ((ended_at is null) = (state in ('held', 'intent'))),
    constraint effects_held check (state <> 'held' or hold_until is not null),
    constraint effects_claimed check ((claimed_by is null) = (claimed_until is null)),
    constraint effects_states check (num_nonnulls(states, secret, purged_at) = 1)
);
create index effects_by_step on effects (root_id, step_id);
create index effects_doubtful on effects (root_id, session_id)
    where state in ('held', 'intent', 'in_doubt');
create index effects_held on effects (hold_until) where state = 'held';
create index effects_claimed on effects (claimed_until)
    where state = 'intent' and claimed_by is not null;

create table effect_calls (
    root_id uuid not null,
    effect_id uuid not null,
    n integer not null,
    session_id uuid not null,
    purpose text not null check (purpose in ('find', 'replay', 'cancel', 'settle')),
    tool text not null,
    key text,
    sent_at timestamptz not null,
    ended_at timestamptz,
    outcome text check (outcome in ('replied', 'failed', 'not_sent', 'lost')),
    primary key (root_id, effect_id, n),
    constraint effect_calls_ended check ((ended_at is null) = (outcome is null))
);

create table undo_plans (
    root_id uuid not null,
    id uuid not null,
    session_id uuid not null,
    principal text not null,
    asked json not null,
    plan json not null,
    digest text not null,
    created_at timestamptz not null,
    expires_at timestamptz not null,
    primary key (root_id, id)
);
create index undo_plans_by_session on undo_plans (root_id, session_id);
create index undo_plans_past on undo_plans (expires_at);

create table undo_runs (
    root_id uuid not null,
    id uuid not null,
    session_id uuid not null,
    plan_id uuid not null,
    principal text not null,
    generation integer not null default 1 check (generation > 0),
    status text not null check (status in ('running', 'ended')),
    stopped boolean not null default false,
    outcome text
        check (outcome in ('fully_reverted', 'partially_reverted', 'not_reverted')),
    plan json not null,
    policy text not null check (policy in ('stop', 'independent')),
    budget json not null,
    spent json not null,
    report json,
    revision bigint not null default 0,
    node_id uuid,
    fence bigint not null default 0,
    heartbeat_at timestamptz,
    created_at timestamptz not null,
    ended_at timestamptz,
    primary key (root_id, id),
    constraint undo_runs_plan unique (root_id, plan_id),
    constraint undo_runs_ended check ((ended_at is null) = (status <> 'ended')
        and (outcome is null) = (status <> 'ended'))
);
create unique index undo_runs_active on undo_runs (root_id, session_id)
    where ended_at is null;
create index undo_runs_by_session on undo_runs (root_id, session_id);
create index undo_runs_held on undo_runs (heartbeat_at) where ended_at is null;

create table compensations (
    root_id uuid not null,
    undo_id uuid not null,
    effect_id uuid not null,
    session_id uuid not null,
    n integer not null,
    verb text not null check (verb in ('revert', 'compensate', 'cancel', 'acknowledge')),
    state text not null,
    reason text,
    detail json not null default '{}',
    secret bytea,
    attempts integer not null default 0 check (attempts >= 0),
    is_active boolean not null default true,
    updated_at timestamptz not null,
    primary key (root_id, undo_id, effect_id)
);
create unique index compensations_active on compensations (root_id, effect_id) where is_active;
create index compensations_by_effect on compensations (root_id, effect_id);
create index compensations_by_session on compensations (root_id, session_id);

create table compensation_calls (
    root_id uuid not null,
    undo_id uuid not null,
    effect_id uuid not null,
    n integer not null,
    round integer not null,
    session_id uuid not null,
    key text not null,
    phase text not null check (phase in
        ('intent', 'applied', 'not_sent', 'deferred', 'not_applied', 'unknown')),
    attempts integer not null check (attempts >= 0),
    detail text not null default '',
    first_sent_at timestamptz not null,
    primary key (root_id, undo_id, effect_id, n, round)
);
create index compensation_calls_by_session on compensation_calls (root_id, session_id);

create table residues (
    root_id uuid not null,
    id uuid not null,
    session_id uuid not null,
    undo_id uuid not null,
    effect_id uuid not null,
    n integer not null default 0,
    verb text not null check (verb in ('revert', 'compensate', 'cancel', 'acknowledge')),
    template text not null,
    facts json not null,
    draft json,
    leaves json not null,
    status text not null check (status in ('open', 'acknowledged', 'settled')),
    since timestamptz not null,
    settles_at timestamptz,
    acknowledged_by text,
    acknowledged_at timestamptz,
    settled_at timestamptz,
    overwritten_by text,
    overwritten_at timestamptz,
    primary key (root_id, id),
    constraint residues_of_effect unique (root_id, undo_id, effect_id, n),
    constraint residues_acknowledged check ((acknowledged_at is null) = (acknowledged_by is null)),
    constraint residues_overwritten check ((overwritten_at is null) = (overwritten_by is null))
);
create index residues_by_session on residues (root_id, session_id);
create index residues_settling on residues (settles_at) where status <> 'settled';

create table ledger (
    project_id text not null,
    connection text not null,
    kind text not null,
    key text not null,
    n bigint not null check (n > 0),
    source text not null check (source in ('effect', 'inverse', 'stranger')),
    session_id uuid,
    effect_id uuid,
    leaves json,
    secret bytea,
    at timestamptz not null,
    primary key (project_id, connection, kind, key, n),
    constraint ledger_source check ((source = 'stranger') = (effect_id is null)
        and (effect_id is null) = (session_id is null)),
    constraint ledger_leaves check ((leaves is null) <> (secret is null))
);
create index ledger_by_effect on ledger (effect_id) where effect_id is not null;

create sequence resource_fences as bigint;

create table resource_locks (
    project_id text not null,
    connection text not null,
    kind text not null,
    key text not null,
    holder uuid not null,
    node_id uuid not null,
    fence bigint not null,
    taken_at timestamptz not null,
    expires_at timestamptz not null,
    primary key (project_id, connection, kind, key)
);
create index resource_locks_by_holder on resource_locks (holder);
"""

EFFECTS = "there are effects outside, which nobody could take back any more"
REFUSED = f"""do $$ begin
    if exists (select from effects) then raise exception '{EFFECTS}'; end if;
end $$"""


def upgrade() -> None:
    for statement in TABLES.split(";\n"):
        if statement.strip():
            op.execute(statement)


def downgrade() -> None:
    op.execute("lock table effects in access exclusive mode")
    if op.get_context().as_sql:
        op.execute(REFUSED)
    elif op.get_bind().scalar(text("select exists (select from effects)")):
        raise DowngradeRefused(
            f"Migration `{revision}` cannot be taken back: {EFFECTS}; stay at it, or restore a"
            " backup from before the first of them"
        )
    for table in (
        "resource_locks",
        "ledger",
        "residues",
        "compensation_calls",
        "compensations",
        "undo_runs",
        "undo_plans",
        "effect_calls",
        "effects",
        "approvals",
        "open_steps",
        "contracts",
    ):
        op.execute(f"drop table {table}")
    op.execute("drop sequence resource_fences")
