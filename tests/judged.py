"""Goldens approved and runs posted, for tests of what the service makes of them."""

from __future__ import annotations

import hashlib
import itertools
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from builders import Toy, make_golden, make_record
from gradassay.api.auth.caller import Caller
from gradassay.api.auth.scope import Scope
from gradassay.api.database.database import Database
from gradassay.api.judging.assays import Assays
from gradassay.api.ledger.deciding import Decision
from gradassay.api.ledger.ledger import Ledger
from gradassay.api.reviews.reviews import Reviews
from gradassay.api.runs.run import Run
from gradassay.api.runs.runs import Runs
from gradassay.goldens.golden import Golden
from gradassay.goldens.layout import Layout
from gradassay.goldens.record import Record
from gradassay.goldens.store.protocol import GoldenStore

LAYOUT = Layout(dp=4, ep=2, accum=2)


def caller(project: str = "default") -> Caller:
    """Somebody who sees the project."""
    return Caller(who="ada", project=project, scopes=frozenset(Scope))


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """The parts of one replica, without HTTP, and files to give them. folder: for those."""

    database: Database
    store: GoldenStore
    runs: Runs
    ledger: Ledger
    assays: Assays
    reviews: Reviews
    folder: Path
    toy: Toy
    _numbers: Any = field(default_factory=itertools.count, repr=False)

    @classmethod
    def open(cls, database: Database, store: GoldenStore, *, folder: Path, toy: Toy, **options: Any) -> Bench:
        """A replica over a migrated database and a store. options: of its Assays."""
        runs, ledger = Runs(database, store), Ledger(database, store)
        return cls(
            database=database,
            store=store,
            runs=runs,
            ledger=ledger,
            assays=Assays(database, store, runs=runs, ledger=ledger, **options),
            reviews=Reviews(database),
            folder=folder,
            toy=toy,
        )

    def golden(self, golden: Golden | None = None, *, noise: float | None = None, project: str = "default") -> int:
        """Proposes a golden of the toy; answers with its version."""
        path = self.folder / f"golden-{next(self._numbers)}.safetensors"
        (golden or make_golden(self.toy, noise=noise)).write(path)
        return self.ledger.propose(path, who="ci", project=project).version

    def approve(self, version: int, *, channel: str = "approved", name: str = "toy.float32") -> None:
        """Points the channel at the version."""
        self.ledger.decide(name, version, Decision.APPROVE, channel=channel, who="ada", why="because")

    def post(
        self, record: Record | bytes | None = None, *, project: str = "default", who: str = "ci", **record_options: Any
    ) -> Run:
        """Posts a record of the toy; by default its experts are twice too large."""
        options = {"layout": LAYOUT, "weights": {"expert": 2.0}} | record_options
        made = record or make_record(self.toy, **options)
        content = made if isinstance(made, bytes) else made.to_bytes()
        path = self.folder / f"record-{next(self._numbers)}.safetensors"
        path.write_bytes(content)
        run, _ = self.runs.post(path, f"sha256:{hashlib.sha256(content).hexdigest()}", who=who, project=project)
        return run
