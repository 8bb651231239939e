"""What is done in the background: runs judged that nobody asked about, and whatever was left behind put in order."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar

import structlog
from sqlalchemy.exc import SQLAlchemyError

from gradassay.api.database.database import Database
from gradassay.api.judging.assays import Assays
from gradassay.api.judging.refresh import ensure_drift, without_drift
from gradassay.api.ledger.ledger import Ledger
from gradassay.api.runs.runs import Runs
from gradassay.goldens.errors import GradassayError
from gradassay.goldens.store.protocol import GoldenStore

AT_ONCE = 32
Result = TypeVar("Result")
log = structlog.get_logger("gradassay.sweep")


class Sweep:
    """One thread. Every period, and first at its start, it puts the store and the database in order; then, and whenever
    `assays.nudge` is called, it judges the runs that have no assay against their approved golden.

    Several replicas may sweep at once: what two of them would do is done once, or twice to the same end.
    """

    def __init__(
        self, database: Database, store: GoldenStore, *, runs: Runs, ledger: Ledger, assays: Assays, every_s: float
    ) -> None:
        self._database = database
        self._store = store
        self._runs = runs
        self._ledger = ledger
        self._assays = assays
        self._every_s = every_s
        self._stopping = threading.Event()
        self._failed: set[str] = set()
        self._thread = threading.Thread(target=self._run, name="sweep", daemon=True)

    def start(self) -> None:
        """Begins, with a first pass at once."""
        self._thread.start()

    def stop(self) -> None:
        """Ends when what is being done just now is done."""
        self._stopping.set()
        self._assays.nudged.set()
        self._thread.join()

    def once(self) -> None:
        """One whole pass; what fails is logged, tried again in the next, and does not keep the rest from being done."""
        self._failed.clear()
        self._step("remove_abandoned", self._store.remove_abandoned)
        self._step("reconcile", self._ledger.reconcile)
        self._step("adopt", self._runs.adopt)
        self._step("refresh", self._refresh)
        self.judge()

    def judge(self) -> None:
        """Judges every run that has no assay against its approved golden, a few at once."""
        while not self._stopping.is_set():
            limit = AT_ONCE + len(self._failed)
            found = self._step("find", partial(self._assays.unjudged, limit=limit)) or []
            questions = [question for question in found if question.id not in self._failed]
            if not questions:
                return
            for question in questions:
                self._assays.begin(question)
            for question in questions:
                if self._stopping.is_set():
                    return
                if self._step(f"judge {question.run.id}", partial(self._assays.judge, question)) is None:
                    self._failed.add(question.id)

    def _run(self) -> None:
        while not self._stopping.is_set():
            self.once()
            until = time.monotonic() + self._every_s
            while not self._stopping.is_set() and self._assays.nudged.wait(max(0.0, until - time.monotonic())):
                self._assays.nudged.clear()
                self._step("refresh", self._refresh)
                self.judge()
                if time.monotonic() >= until:
                    break

    def _refresh(self) -> None:
        for name, version in without_drift(self._database):
            if self._stopping.is_set():
                return
            self._step(f"refresh {name} v{version}", partial(ensure_drift, self._database, self._store, name, version))

    def _step(self, name: str, do: Callable[[], Result]) -> Result | None:
        try:
            return do()
        except (GradassayError, SQLAlchemyError, OSError) as error:
            log.warning("sweep failed", step=name, error=str(error))
        except Exception:
            log.exception("sweep failed by a bug", step=name)
        return None
