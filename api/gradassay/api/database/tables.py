"""Tables of the service. Whatever is a decision is only ever added to; what can be computed again may be deleted."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import JSON, DateTime, ForeignKey, Index, LargeBinary, MetaData, String, Text, UniqueConstraint
from sqlalchemy.engine import Dialect
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
from sqlalchemy.types import TypeDecorator


class Moment(TypeDecorator[datetime]):
    """A time in UTC, aware in Python whatever the database gives back."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Aware times only."""
        assert value is None or value.tzinfo is not None, f"{value} has no time zone"
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """In UTC."""
        return value if value is None or value.tzinfo else value.replace(tzinfo=UTC)


class Table(DeclarativeBase):
    """What all tables share; constraints have names, so that revisions can change them."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map = {datetime: Moment, str: Text, bytes: LargeBinary, dict[str, Any]: JSON, list[Any]: JSON}  # noqa: RUF012


class RunRow(Table):
    """A record that was posted; its file lies in the store as `stored`. number orders runs, for cursors."""

    __tablename__ = "runs"
    __table_args__ = (
        UniqueConstraint("project", "digest"),
        Index("runs_of_problem", "project", "problem", "dtype", "number"),
        Index("runs_of_golden", "project", "problem", "dtype", "problem_digest", "dtype_profile"),
    )

    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    id: Mapped[str] = mapped_column(String(40), unique=True)
    project: Mapped[str] = mapped_column(String(64))
    digest: Mapped[str] = mapped_column(String(80))
    stored: Mapped[str] = mapped_column(String(255))
    problem: Mapped[str] = mapped_column(String(128))
    problem_digest: Mapped[str] = mapped_column(String(80))
    framework: Mapped[str] = mapped_column(String(128))
    framework_version: Mapped[str] = mapped_column(String(128))
    strategy: Mapped[str] = mapped_column(String(128))
    layout: Mapped[str] = mapped_column(String(128))
    dtype: Mapped[str] = mapped_column(String(64))
    dtype_profile: Mapped[str] = mapped_column(String(200))
    commit: Mapped[str] = mapped_column(String(128))
    header: Mapped[dict[str, Any]]
    posted_by: Mapped[str] = mapped_column(String(128))
    posted_at: Mapped[datetime]


class AssayRow(Table):
    """One comparison, by what it is a function of. document: the JSON of `gradassay diff`, compressed by zlib."""

    __tablename__ = "assays"
    __table_args__ = (Index("assays_of_run", "run", "golden", "version"),)

    id: Mapped[str] = mapped_column(String(40), primary_key=True)
    project: Mapped[str] = mapped_column(String(64))
    run: Mapped[str] = mapped_column(String(40), index=True)
    golden: Mapped[str | None] = mapped_column(String(200))
    version: Mapped[int | None]
    other_run: Mapped[str | None] = mapped_column(String(40))
    verdict: Mapped[str] = mapped_column(String(32), index=True)
    sentence: Mapped[str]
    document: Mapped[bytes]
    computed_at: Mapped[datetime]


class FindingRow(Table):
    """One finding of an assay: what the inbox groups. law: a digest of families, pattern and formula."""

    __tablename__ = "findings"

    assay: Mapped[str] = mapped_column(ForeignKey("assays.id", ondelete="CASCADE"), primary_key=True)
    position: Mapped[int] = mapped_column(primary_key=True)
    law: Mapped[str] = mapped_column(String(40), index=True)
    families: Mapped[list[Any]]
    pattern: Mapped[str] = mapped_column(String(64))
    formula: Mapped[str]
    count: Mapped[int]
    of: Mapped[int]
    known_faults: Mapped[list[Any]]
    parameters: Mapped[list[Any]]


class ClaimRow(Table):
    """Who computes an assay just now, so that replicas do not do it twice; worth nothing after `until`."""

    __tablename__ = "claims"

    assay: Mapped[str] = mapped_column(String(40), primary_key=True)
    holder: Mapped[str] = mapped_column(String(64))
    until: Mapped[datetime]


class GoldenRow(Table):
    """A name of goldens and the project that it belongs to."""

    __tablename__ = "goldens"

    name: Mapped[str] = mapped_column(String(200), primary_key=True)
    project: Mapped[str] = mapped_column(String(64), index=True)


class VersionRow(Table):
    """An immutable version of a golden; its file lies in the store.

    facts: what pages show of it (units, noise, power, environment, references).
    drift: how it differs from what was approved when it was proposed, as `refresh` found it.
    """

    __tablename__ = "versions"

    golden: Mapped[str] = mapped_column(ForeignKey("goldens.name"), primary_key=True)
    version: Mapped[int] = mapped_column(primary_key=True)
    digest: Mapped[str] = mapped_column(String(80))
    facts: Mapped[dict[str, Any]]
    drift: Mapped[dict[str, Any] | None]
    proposed_at: Mapped[datetime]
    proposed_by: Mapped[str] = mapped_column(String(128))


class ChannelRow(Table):
    """Where a channel points now: the one row that reviewers race for, derived from the ledger. version 0: nowhere."""

    __tablename__ = "channels"

    golden: Mapped[str] = mapped_column(ForeignKey("goldens.name"), primary_key=True)
    channel: Mapped[str] = mapped_column(String(64), primary_key=True)
    version: Mapped[int]
    entry: Mapped[int]


class EntryRow(Table):
    """One entry of the ledger, never changed: who did what to which version, when and why, and from where to where.

    action: proposed, endorsed (the first of two reviewers), approved, rejected, superseded, undone, accepted (a
    divergence), adopted (found in the store), deleted (a version, by gc). Where a channel moved: version is what it
    points to since, previous what it pointed to before, 0 for none.
    """

    __tablename__ = "ledger"

    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    at: Mapped[datetime]
    who: Mapped[str] = mapped_column(String(128))
    project: Mapped[str] = mapped_column(String(64), index=True)
    action: Mapped[str] = mapped_column(String(32), index=True)
    golden: Mapped[str | None] = mapped_column(String(200), index=True)
    version: Mapped[int | None]
    channel: Mapped[str | None] = mapped_column(String(64))
    previous: Mapped[int | None]
    undoes: Mapped[int | None]
    run: Mapped[str | None] = mapped_column(String(40))
    why: Mapped[str]
    cause: Mapped[str] = mapped_column(Text, default="")


class ReviewRow(Table):
    """What a person decided about a divergence. decision: accepted (until `expires_at`) or rejected.

    law: as in `findings`, with the golden it was seen against; parameters: those it was accepted for.
    """

    __tablename__ = "reviews"

    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    project: Mapped[str] = mapped_column(String(64), index=True)
    run: Mapped[str] = mapped_column(String(40), index=True)
    law: Mapped[str] = mapped_column(String(40), index=True)
    formula: Mapped[str]
    golden: Mapped[str | None] = mapped_column(String(200))
    parameters: Mapped[list[Any]]
    decision: Mapped[str] = mapped_column(String(16))
    reason: Mapped[str]
    who: Mapped[str] = mapped_column(String(128))
    at: Mapped[datetime]
    expires_at: Mapped[datetime | None]
    withdrawn_at: Mapped[datetime | None]


class TokenRow(Table):
    """A token, known by its hash only. project: "*" for all of them."""

    __tablename__ = "tokens"

    id: Mapped[str] = mapped_column(String(40), primary_key=True)
    name: Mapped[str] = mapped_column(String(128))
    hash: Mapped[str] = mapped_column(String(80), unique=True)
    project: Mapped[str] = mapped_column(String(64))
    scopes: Mapped[list[Any]]
    created_by: Mapped[str] = mapped_column(String(128))
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]
    used_at: Mapped[datetime | None]


class LoginRow(Table):
    """A browser's session, or a link that opens one, known by its hash only. used_at: a link works once."""

    __tablename__ = "logins"

    hash: Mapped[str] = mapped_column(String(80), primary_key=True)
    kind: Mapped[str] = mapped_column(String(16))
    token: Mapped[str | None] = mapped_column(String(40))
    who: Mapped[str] = mapped_column(String(128))
    project: Mapped[str] = mapped_column(String(64))
    scopes: Mapped[list[Any]]
    csrf: Mapped[str] = mapped_column(String(80))
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime]
    used_at: Mapped[datetime | None]
