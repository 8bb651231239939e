"""The database's revisions: up to the newest, down to an older one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from gradassay.api.database.database import Database
from gradassay.goldens.errors import UsageError

MIGRATIONS = Path(__file__).parent / "migrations"
_LOCK = 0x67726164  # "grad": one lock for whoever migrates a database on this Postgres database


def upgrade(database: Database) -> str:
    """The newest revision, at which the database is now; of replicas that start at once, one brings it there.

    Raises UsageError where the database cannot be reached, or was brought to a revision that this release does not know.
    """
    return _migrate(database, lambda config: command.upgrade(config, "head"))


def downgrade(database: Database, to: str) -> str:
    """The revision `to`, at which the database is now; "base" drops every table with what it holds.

    Raises UsageError for a revision that this release does not know.
    """
    return _migrate(database, lambda config: command.downgrade(config, to))


def revision(database: Database) -> str:
    """The revision that the database is at; "base" where it holds no tables."""
    with database.engine.connect() as connection:
        return MigrationContext.configure(connection).get_current_revision() or "base"


def newest() -> str:
    """The revision that this release brings a database to."""
    head = ScriptDirectory.from_config(configuration()).get_current_head()
    assert head is not None
    return head


def configuration(connection: Connection | None = None) -> Config:
    """Alembic's configuration over an open transaction; no file on disk is read for it."""
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def _migrate(database: Database, change: Callable[[Config], None]) -> str:
    try:
        with _alone(database) as connection:
            change(configuration(connection))
            return MigrationContext.configure(connection).get_current_revision() or "base"
    except CommandError as error:
        raise UsageError(
            f"database {database.engine.url}: {error}; this release knows revisions up to {newest()}",
            hint="run the release that migrated the database last, or a newer one",
        ) from error
    except DBAPIError as error:
        raise UsageError(
            f"database {database.engine.url} cannot be used: {error.orig}",
            hint="check GRADASSAY_DATABASE_URL, that the server runs, and that what it names is empty or of gradassay",
        ) from error


@contextmanager
def _alone(database: Database) -> Iterator[Connection]:
    """A transaction that no other migration runs beside; both databases undo a half-done one."""
    with database.write() as session:
        connection = session.connection()
        if connection.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
        yield connection
