"""Run settings of a session's own; null where it has the server's.

Without a default: no row is rewritten, and a step's update of the row carries nothing more.

Revision ID: 0003
Revises: 0002
"""

from turnback.store.altering import patiently

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    patiently("alter table sessions add column run_settings jsonb")


def downgrade() -> None:
    patiently("alter table sessions drop column run_settings")
