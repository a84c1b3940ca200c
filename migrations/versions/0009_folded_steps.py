"""What agents' steps say, compressed; and workflows whose small buckets are stored as operators.

`records` may be large and in use: its column is added without a rewrite, and what was written
before stays as it is and is read. The version before reads neither what steps say from now on nor
the workflows that they lead to: it may not serve the database, and going down is refused once there
is such a step.

Revision ID: 0009
Revises: 0008
"""

from alembic import op
from sqlalchemy import text

from turnback.core.errors import DowngradeRefused
from turnback.store.altering import patiently

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None
contracts = True

IN_USE = """select exists (select from records where folded is not null)
    or exists (select from blobs where substring(data from 1 for 1) = '\\x02'::bytea)"""

FOLDED = "there are steps and workflows that the version before cannot read"

REFUSED = f"""do $$ begin
    if ({IN_USE}) then raise exception '{FOLDED}'; end if;
end $$"""


def upgrade() -> None:
    patiently("alter table records add column folded bytea")


def downgrade() -> None:
    patiently("lock table records, blobs in access exclusive mode")
    if op.get_context().as_sql:
        op.execute(REFUSED)
    elif op.get_bind().scalar(text(IN_USE)):
        raise DowngradeRefused(
            f"Migration `{revision}` cannot be taken back: {FOLDED}; stay at it, or restore a"
            " backup from before the first of them"
        )
    patiently("alter table records drop column folded")
