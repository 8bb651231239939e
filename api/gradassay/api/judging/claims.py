"""Claims: of several replicas that want the same assay, one computes it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

from sqlalchemy import CursorResult, delete, update
from sqlalchemy.exc import IntegrityError

from gradassay.api.database.database import Database
from gradassay.api.database.tables import ClaimRow

LEASE_S = 30.0


class Claims:
    """The claims of one holder; each is renewed while it is held, and worth nothing a lease after its holder died."""

    def __init__(self, database: Database, holder: str, *, lease_s: float = LEASE_S) -> None:
        self.holder = holder
        self._database = database
        self._lease_s = lease_s

    @contextmanager
    def held(self, name: str) -> Iterator[bool]:
        """Whether the claim was to be had; it is renewed inside, and given back at the end."""
        if not self._take(name):
            yield False
            return
        done = threading.Event()
        renewing = threading.Thread(target=self._renew, args=(name, done), daemon=True, name=f"claim {name}")
        renewing.start()
        try:
            yield True
        finally:
            done.set()
            renewing.join()
            with self._database.write() as session:
                session.execute(delete(ClaimRow).where(ClaimRow.assay == name, ClaimRow.holder == self.holder))

    def _take(self, name: str) -> bool:
        now = datetime.now(UTC)
        try:
            with self._database.write() as session:
                known = session.get(ClaimRow, name)
                if known is None:
                    session.add(ClaimRow(assay=name, holder=self.holder, until=self._until(now)))
                    return True
                if known.until > now:
                    return False
                taken = session.execute(
                    update(ClaimRow)
                    .where(ClaimRow.assay == name, ClaimRow.holder == known.holder, ClaimRow.until <= now)
                    .values(holder=self.holder, until=self._until(now))
                    .execution_options(synchronize_session=False)
                )
                assert isinstance(taken, CursorResult)
                return taken.rowcount == 1
        except IntegrityError:
            return False

    def _renew(self, name: str, done: threading.Event) -> None:
        while not done.wait(self._lease_s / 3):
            with self._database.write() as session:
                session.execute(
                    update(ClaimRow)
                    .where(ClaimRow.assay == name, ClaimRow.holder == self.holder)
                    .values(until=self._until(datetime.now(UTC)))
                )

    def _until(self, now: datetime) -> datetime:
        return now + timedelta(seconds=self._lease_s)
