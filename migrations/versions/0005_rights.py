"""Who may what: principals, their keys, roles and grants, tickets, sign-ins; sessions' visibility.

`sessions` may be large and in use. So its column needs no rewrite and no look at
every row while others wait, and its indexes are made
concurrently, outside a transaction, in statements that can be run again where one was cut off.
What is older than keys lets in whoever reaches it, so going down is refused while one is in use.

Revision ID: 0005
Revises: 0003
"""

from alembic import op
from sqlalchemy import text

from turnback.core.errors import DowngradeRefused
from turnback.store.altering import patiently

revision = "0005"
down_revision = "0003"
branch_labels = None
depends_on = None

LISTED = """create index concurrently sessions_listed
on sessions (project_id, visibility, (archived_at is not null), id) where deleted_at is null"""

PRIVATE = """create index concurrently sessions_private on sessions (project_id, owner, id)
where deleted_at is null and visibility = 'private'"""

TABLES = """
create table principals (
    id text primary key,
    created_at timestamptz not null default now()
);

create table api_keys (
    id uuid primary key,
    prefix text not null,
    hash bytea not null check (length(hash) = 32),
    principal_id text not null references principals,
    project_id text not null,
    name text not null,
    created_at timestamptz not null default now(),
    expires_at timestamptz,
    revoked_at timestamptz,
    constraint api_keys_prefix unique (prefix)
);
create index api_keys_by_project on api_keys (project_id, id);

create table roles (
    project_id text not null,
    principal_id text not null references principals,
    role text not null check (role in ('viewer', 'editor', 'owner')),
    primary key (project_id, principal_id)
);

create table session_grants (
    session_id uuid not null,
    principal_id text not null references principals,
    project_id text not null,
    root_id uuid not null,
    rights text[] not null
        check (rights <@ array['read', 'run', 'fork'] and cardinality(rights) > 0),
    granted_by text not null,
    created_at timestamptz not null,
    primary key (session_id, principal_id)
);
create index session_grants_by_principal
    on session_grants (project_id, principal_id, session_id);

create table tickets (
    hash bytea primary key,
    key_id uuid references api_keys,
    session_id uuid not null,
    origin text not null,
    expires_at timestamptz not null
);

create table sign_ins (
    hash bytea primary key,
    key_id uuid not null references api_keys,
    expires_at timestamptz not null
);
"""

IN_USE = """select exists (select from api_keys
where revoked_at is null and (expires_at is null or expires_at > clock_timestamp()))"""

KEYS = "there are API keys in use, and the version before lets in whoever reaches it"

REFUSED = f"""do $$ begin
    if ({IN_USE}) then raise exception '{KEYS}'; end if;
end $$"""


def upgrade() -> None:
    with op.get_context().autocommit_block():
        patiently(
            "alter table sessions"
            " add column if not exists visibility text not null default 'project',"
            " drop constraint if exists sessions_visibility,"
            " add constraint sessions_visibility"
            " check (visibility in ('project', 'private')) not valid"
        )
        op.execute("alter table sessions validate constraint sessions_visibility")
        for name, index in (("sessions_listed", LISTED), ("sessions_private", PRIVATE)):
            op.execute(f"drop index concurrently if exists {name}")
            op.execute(index)
    for statement in TABLES.split(";\n"):
        if statement.strip():
            op.execute(statement)


def downgrade() -> None:
    patiently("alter table sessions drop column visibility")
    op.execute("lock table api_keys in access exclusive mode")
    if op.get_context().as_sql:
        op.execute(REFUSED)
    elif op.get_bind().scalar(text(IN_USE)):
        raise DowngradeRefused(
            f"Migration `{revision}` cannot be taken back: {KEYS}; revoke them first, or stay at it"
        )
    for table in ("sign_ins", "tickets", "session_grants", "roles", "api_keys", "principals"):
        op.execute(f"drop table {table}")
