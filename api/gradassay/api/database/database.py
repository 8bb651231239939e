"""One database, on SQLite or Postgres: transactions that read, and transactions that write."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.orm import Session, sessionmaker

from gradassay.goldens.errors import UsageError

BUSY_S = 30.0
_WRITES = "gradassay_writes"
KINDS = ("sqlite", "postgresql+psycopg")


class Database:
    """A pool of connections; every transaction is a session that is committed whole or not at all."""

    def __init__(self, url: str) -> None:
        self.engine = _engine(url)
        self._sessions = sessionmaker(self.engine, expire_on_commit=False)

    @contextmanager
    def read(self) -> Iterator[Session]:
        """A transaction that leaves nothing behind."""
        with self._sessions() as session:
            yield session

    @contextmanager
    def write(self) -> Iterator[Session]:
        """A transaction that is committed at the end; on SQLite it waits for its turn before it reads anything."""
        with self._sessions.begin() as session:
            session.connection(execution_options={_WRITES: True})
            yield session

    def close(self) -> None:
        """Closes all connections."""
        self.engine.dispose()


def _engine(url: str) -> Engine:
    kind = url.partition(":")[0]
    if kind not in KINDS:
        raise UsageError(
            f"database {kind!r} is not known",
            hint="write sqlite:///PATH or postgresql+psycopg://USER:PASSWORD@HOST/DATABASE",
        )
    if kind != "sqlite":
        return create_engine(url, pool_pre_ping=True, pool_size=10, max_overflow=20)
    engine = create_engine(url, connect_args={"timeout": BUSY_S, "isolation_level": None})
    _make_folder(engine)

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _record: Any) -> None:
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # Two that read first and then write would each wait for the other.
        writes = connection.get_execution_options().get(_WRITES)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _make_folder(engine: Engine) -> None:
    folder = Path(engine.url.database or "").absolute().parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"{folder}: the folder of the service's database cannot be made ({error.strerror or error})",
            hint="choose another with GRADASSAY_DATABASE_URL or `gradassay serve --folder`, or mend its permissions",
        ) from error
