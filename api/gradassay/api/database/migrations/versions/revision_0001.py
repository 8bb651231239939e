"""Tables of the first release."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision: str | None = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """From nothing."""
    op.create_table(
        "assays",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("project", sa.String(length=64), nullable=False),
        sa.Column("run", sa.String(length=40), nullable=False),
        sa.Column("golden", sa.String(length=200), nullable=True),
        sa.Column("version", sa.Integer(), nullable=True),
        sa.Column("other_run", sa.String(length=40), nullable=True),
        sa.Column("verdict", sa.String(length=32), nullable=False),
        sa.Column("sentence", sa.Text(), nullable=False),
        sa.Column("document", sa.LargeBinary(), nullable=False),
        sa.Column("computed_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_assays")),
    )
    with op.batch_alter_table("assays", schema=None) as batch_op:
        batch_op.create_index("assays_of_run", ["run", "golden", "version"], unique=False)
        batch_op.create_index(batch_op.f("ix_assays_run"), ["run"], unique=False)
        batch_op.create_index(batch_op.f("ix_assays_verdict"), ["verdict"], unique=False)

    op.create_table(
        "claims",
        sa.Column("assay", sa.String(length=40), nullable=False),
        sa.Column("holder", sa.String(length=64), nullable=False),
        sa.Column("until", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("assay", name=op.f("pk_claims")),
    )
    op.create_table(
        "goldens",
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("project", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_goldens")),
    )
    with op.batch_alter_table("goldens", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_goldens_project"), ["project"], unique=False)

    op.create_table(
        "ledger",
        sa.Column("number", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("who", sa.String(length=128), nullable=False),
        sa.Column("project", sa.String(length=64), nullable=False),
        sa.Column("action", sa.String(length=32), nullable=False),
        sa.Column("golden", sa.String(length=200), nullable=True),
        sa.Column("version", sa.Integer(), nullable=True),
        sa.Column("channel", sa.String(length=64), nullable=True),
        sa.Column("previous", sa.Integer(), nullable=True),
        sa.Column("undoes", sa.Integer(), nullable=True),
        sa.Column("run", sa.String(length=40), nullable=True),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("cause", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_ledger")),
    )
    with op.batch_alter_table("ledger", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_ledger_action"), ["action"], unique=False)
        batch_op.create_index(batch_op.f("ix_ledger_golden"), ["golden"], unique=False)
        batch_op.create_index(batch_op.f("ix_ledger_project"), ["project"], unique=False)

    op.create_table(
        "logins",
        sa.Column("hash", sa.String(length=80), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("token", sa.String(length=40), nullable=True),
        sa.Column("who", sa.String(length=128), nullable=False),
        sa.Column("project", sa.String(length=64), nullable=False),
        sa.Column("scopes", sa.JSON(), nullable=False),
        sa.Column("csrf", sa.String(length=80), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("used_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("hash", name=op.f("pk_logins")),
    )
    op.create_table(
        "reviews",
        sa.Column("number", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("project", sa.String(length=64), nullable=False),
        sa.Column("run", sa.String(length=40), nullable=False),
        sa.Column("law", sa.String(length=40), nullable=False),
        sa.Column("formula", sa.Text(), nullable=False),
        sa.Column("golden", sa.String(length=200), nullable=True),
        sa.Column("parameters", sa.JSON(), nullable=False),
        sa.Column("decision", sa.String(length=16), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("who", sa.String(length=128), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("withdrawn_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_reviews")),
    )
    with op.batch_alter_table("reviews", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_reviews_law"), ["law"], unique=False)
        batch_op.create_index(batch_op.f("ix_reviews_project"), ["project"], unique=False)
        batch_op.create_index(batch_op.f("ix_reviews_run"), ["run"], unique=False)

    op.create_table(
        "runs",
        sa.Column("number", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("project", sa.String(length=64), nullable=False),
        sa.Column("digest", sa.String(length=80), nullable=False),
        sa.Column("stored", sa.String(length=255), nullable=False),
        sa.Column("problem", sa.String(length=128), nullable=False),
        sa.Column("problem_digest", sa.String(length=80), nullable=False),
        sa.Column("framework", sa.String(length=128), nullable=False),
        sa.Column("framework_version", sa.String(length=128), nullable=False),
        sa.Column("strategy", sa.String(length=128), nullable=False),
        sa.Column("layout", sa.String(length=128), nullable=False),
        sa.Column("dtype", sa.String(length=64), nullable=False),
        sa.Column("dtype_profile", sa.String(length=200), nullable=False),
        sa.Column("commit", sa.String(length=128), nullable=False),
        sa.Column("header", sa.JSON(), nullable=False),
        sa.Column("posted_by", sa.String(length=128), nullable=False),
        sa.Column("posted_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_runs")),
        sa.UniqueConstraint("id", name=op.f("uq_runs_id")),
        sa.UniqueConstraint("project", "digest", name=op.f("uq_runs_project_digest")),
    )
    with op.batch_alter_table("runs", schema=None) as batch_op:
        batch_op.create_index(
            "runs_of_golden", ["project", "problem", "dtype", "problem_digest", "dtype_profile"], unique=False
        )
        batch_op.create_index("runs_of_problem", ["project", "problem", "dtype", "number"], unique=False)

    op.create_table(
        "tokens",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("hash", sa.String(length=80), nullable=False),
        sa.Column("project", sa.String(length=64), nullable=False),
        sa.Column("scopes", sa.JSON(), nullable=False),
        sa.Column("created_by", sa.String(length=128), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("used_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tokens")),
        sa.UniqueConstraint("hash", name=op.f("uq_tokens_hash")),
    )
    op.create_table(
        "channels",
        sa.Column("golden", sa.String(length=200), nullable=False),
        sa.Column("channel", sa.String(length=64), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("entry", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["golden"], ["goldens.name"], name=op.f("fk_channels_golden")),
        sa.PrimaryKeyConstraint("golden", "channel", name=op.f("pk_channels")),
    )
    op.create_table(
        "findings",
        sa.Column("assay", sa.String(length=40), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("law", sa.String(length=40), nullable=False),
        sa.Column("families", sa.JSON(), nullable=False),
        sa.Column("pattern", sa.String(length=64), nullable=False),
        sa.Column("formula", sa.Text(), nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("of", sa.Integer(), nullable=False),
        sa.Column("known_faults", sa.JSON(), nullable=False),
        sa.Column("parameters", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["assay"], ["assays.id"], name=op.f("fk_findings_assay"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("assay", "position", name=op.f("pk_findings")),
    )
    with op.batch_alter_table("findings", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_findings_law"), ["law"], unique=False)

    op.create_table(
        "versions",
        sa.Column("golden", sa.String(length=200), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("digest", sa.String(length=80), nullable=False),
        sa.Column("facts", sa.JSON(), nullable=False),
        sa.Column("drift", sa.JSON(), nullable=True),
        sa.Column("proposed_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("proposed_by", sa.String(length=128), nullable=False),
        sa.ForeignKeyConstraint(["golden"], ["goldens.name"], name=op.f("fk_versions_golden")),
        sa.PrimaryKeyConstraint("golden", "version", name=op.f("pk_versions")),
    )


def downgrade() -> None:
    """Back to nothing."""
    op.drop_table("versions")
    with op.batch_alter_table("findings", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_findings_law"))

    op.drop_table("findings")
    op.drop_table("channels")
    op.drop_table("tokens")
    with op.batch_alter_table("runs", schema=None) as batch_op:
        batch_op.drop_index("runs_of_problem")
        batch_op.drop_index("runs_of_golden")

    op.drop_table("runs")
    with op.batch_alter_table("reviews", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_reviews_run"))
        batch_op.drop_index(batch_op.f("ix_reviews_project"))
        batch_op.drop_index(batch_op.f("ix_reviews_law"))

    op.drop_table("reviews")
    op.drop_table("logins")
    with op.batch_alter_table("ledger", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_ledger_project"))
        batch_op.drop_index(batch_op.f("ix_ledger_golden"))
        batch_op.drop_index(batch_op.f("ix_ledger_action"))

    op.drop_table("ledger")
    with op.batch_alter_table("goldens", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_goldens_project"))

    op.drop_table("goldens")
    op.drop_table("claims")
    with op.batch_alter_table("assays", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_assays_verdict"))
        batch_op.drop_index(batch_op.f("ix_assays_run"))
        batch_op.drop_index("assays_of_run")

    op.drop_table("assays")
