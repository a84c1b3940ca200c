"""Attachments: what was uploaded, who may read it, and which records refer to it.

Bytes are shared by their SHA-256 within a project and never across (lineage.md 8); they lie in
files, not in the database. References carry no foreign key, as records do not: they are written in
a prompt's own commit. Who may read is written once per upload and once per fork, and keeps its
attachment's row from going while it is there.

Revision ID: 0007
Revises: 0006
"""

from alembic import op
from sqlalchemy import text

from turnback.core.errors import DowngradeRefused

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

TABLES = """
create table attachment_objects (
    project_id text not null,
    sha256 bytea not null,
    touched_at timestamptz not null default clock_timestamp(),
    primary key (project_id, sha256),
    constraint attachment_objects_hash check (octet_length(sha256) = 32)
);

create table attachments (
    root_id uuid not null,
    id uuid not null,
    session_id uuid not null,
    project_id text not null,
    name text not null,
    type text not null,
    size bigint not null check (size >= 0),
    sha256 bytea not null,
    principal text not null,
    created_at timestamptz not null,
    deleted_at timestamptz,
    primary key (root_id, id)
);
create index attachments_by_session on attachments (root_id, session_id)
    where deleted_at is null;
create index attachments_by_object on attachments (project_id, sha256)
    where deleted_at is null;

create table session_attachment_access (
    root_id uuid not null,
    session_id uuid not null,
    attachment_id uuid not null,
    source uuid not null,
    granted_at timestamptz not null,
    revoked_at timestamptz,
    primary key (root_id, session_id, attachment_id),
    constraint session_attachment_access_attachment foreign key (root_id, attachment_id)
        references attachments (root_id, id) on delete restrict
);
create index session_attachment_access_by_attachment
    on session_attachment_access (root_id, attachment_id);

create table attachment_refs (
    root_id uuid not null,
    branch_id uuid not null,
    seq integer not null,
    attachment_id uuid not null,
    primary key (root_id, branch_id, seq, attachment_id)
);
create index attachment_refs_by_attachment on attachment_refs (root_id, attachment_id, seq);
"""

FILES = "there are attachments, whose files nobody would find again"
REFUSED = f"""do $$ begin
    if exists (select from attachments where deleted_at is null) then
        raise exception '{FILES}'; end if;
end $$"""


def upgrade() -> None:
    for statement in TABLES.split(";\n"):
        if statement.strip():
            op.execute(statement)


def downgrade() -> None:
    op.execute("lock table attachments in access exclusive mode")
    if op.get_context().as_sql:
        op.execute(REFUSED)
    elif op.get_bind().scalar(
        text("select exists (select from attachments where deleted_at is null)")
    ):
        raise DowngradeRefused(
            f"Migration `{revision}` cannot be taken back: {FILES}; remove them first, or stay at"
            " it"
        )
    for table in (
        "attachment_refs",
        "session_attachment_access",
        "attachments",
        "attachment_objects",
    ):
        op.execute(f"drop table {table}")
