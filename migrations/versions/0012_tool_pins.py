"""What tools said of themselves when somebody looked: their pins (undo.md 1).

Of no root: a tool is the same for all sessions. Going down forgets the pins; on the way up again
each tool is pinned as it is found then.

Revision ID: 0012
Revises: 0011
"""

from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

TABLE = """
create table tool_pins (
    connection text not null,
    tool text not null,
    pin text not null,
    looked_at timestamptz not null default clock_timestamp(),
    primary key (connection, tool, pin)
)
"""


def upgrade() -> None:
    op.execute(TABLE)


def downgrade() -> None:
    op.execute("drop table tool_pins")
