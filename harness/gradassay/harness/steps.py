"""Runs the steps of a session on this rank, and captures their stages."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from gradassay.goldens.header import Parameter, StageStep
from gradassay.goldens.record import Capture
from gradassay.harness.capture.change import changes, kept, rounding
from gradassay.harness.capture.exchange import Exchange
from gradassay.harness.capture.piece import Piece
from gradassay.harness.capture.take import Taken, take
from gradassay.harness.capture.units import UnitSketches
from gradassay.harness.cell import Cell
from gradassay.harness.interference import Interference
from gradassay.harness.strategies.protocol import Session


@dataclass(slots=True, kw_only=True)
class Steps:
    """The steps of a cell on one rank. parameters: the problem's, with the shards that the first capture finds.

    units: what observes local gradients, or None. captures: by stage and step, in the order in which they were taken.
    """

    cell: Cell
    parameters: tuple[Parameter, ...]
    exchange: Exchange
    dp_rank: int
    interference: Interference = field(default_factory=Interference)
    units: UnitSketches | None = None
    captures: dict[StageStep, Capture] = field(default_factory=dict)

    def run(self, session: Session) -> None:
        """Runs and captures all of them; collective."""
        for step in range(1, self.cell.steps + 1):
            session.accumulate()
            if self.units is not None:
                local = self.units.capture()
                self.captures[StageStep(stage="local", step=step)] = local
            self._reduced(session, step)
            if self.cell.max_norm:
                clipped = session.clip(self.cell.max_norm)
                if clipped is not None and "clipped" in self.cell.stages:
                    self._keep("clipped", step, self._take(clipped))
            if "update" in self.cell.stages:
                self._update(session, step)
            elif step < self.cell.steps:
                session.update()

    def _reduced(self, session: Session, step: int) -> None:
        pieces = session.gradients()
        if self.interference.pieces is not None:
            pieces = self.interference.pieces(pieces)
        if "reduced" in self.cell.stages:
            self._keep("reduced", step, self._take(pieces))

    def _update(self, session: Session, step: int) -> None:
        before = kept(session.weights())
        session.update()
        after = session.weights()
        taken = self._take(changes(before, after, self.cell.learning_rate))
        weights = self._take(after).capture.norm2
        slack = rounding(after, weights, self.cell.learning_rate)
        self._keep("update", step, replace(taken, capture=replace(taken.capture, rounding=slack)))

    def _take(self, pieces: list[Piece]) -> Taken:
        return take(
            pieces,
            self.parameters,
            self.exchange,
            dp_rank=self.dp_rank,
            dp=self.cell.layout.dp,
            full=self.cell.full,
        )

    def _keep(self, stage: str, step: int, taken: Taken) -> None:
        self.captures[StageStep(stage=stage, step=step)] = taken.capture
        self.parameters = taken.parameters
