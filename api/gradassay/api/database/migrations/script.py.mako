"""${message}."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
${imports if imports else ""}

revision = ${repr(up_revision)}
down_revision: str | None = ${repr(down_revision)}
branch_labels = None
depends_on = None


def upgrade() -> None:
    """From ${down_revision or "nothing"}."""
    ${upgrades if upgrades else "pass"}


def downgrade() -> None:
    """Back to ${down_revision or "nothing"}."""
    ${downgrades if downgrades else "pass"}
