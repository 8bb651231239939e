from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from gradassay.goldens.assay.own import assay_self
from gradassay.goldens.assay.result import Assay, Verdict
from gradassay.goldens.errors import UsageError
from gradassay.goldens.header import Framework, Problem, RecordHeader, Update
from gradassay.goldens.layout import Layout
from gradassay.goldens.record import Record
from gradassay.harness.capture.exchange import Exchange
from gradassay.harness.capture.piece import whole
from gradassay.harness.capture.units import UnitSketches
from gradassay.harness.cell import DTYPES, STAGES, Cell
from gradassay.harness.mesh import Ranks
from gradassay.harness.problems import load_problem
from gradassay.harness.steps import Steps
from gradassay.harness.strategies.replicated import Replicated
from gradassay.harness.strategies.single import Single
from gradassay.harness.strategies.task import Plan, Task

LAYOUT = Layout(accum=3)
CELL = Cell(
    problem="dense-tiny", strategy="single", layout=LAYOUT, stages=STAGES, steps=2, learning_rate=0.25, max_norm=0.5
)


def trained(*, untrained: str = "", halved: bool = False, max_norm: float = CELL.max_norm) -> Record:
    """A record of two steps in this process. untrained: a parameter that the optimizer does not know. halved: gradients
    are halved after the backward passes. max_norm: what the step clips to, whatever the record says.
    """
    problem = load_problem(CELL.problem)
    exchange = Exchange(group=None, device=torch.device("cpu"))
    units = UnitSketches(problem.parameters, exchange, accum=LAYOUT.accum)
    plan = Plan(problem=problem, layout=LAYOUT, learning_rate=CELL.learning_rate, max_norm=CELL.max_norm)
    task = Task(
        plan=plan,
        ranks=Ranks(layout=LAYOUT, dp_rank=0),
        device=torch.device("cpu"),
        observer=lambda name, _rank, micro, gradient: units.add([whole(name, gradient, numel=gradient.numel())], micro),
    )
    session = Single().start(task)
    session = Tampered(**{field: getattr(session, field) for field in session.__dataclass_fields__})
    kept = [parameter for name, parameter in session.masters.trained.items() if name != untrained]
    session = replace(session, optimizer=torch.optim.SGD(kept, lr=CELL.learning_rate))
    object.__setattr__(session, "halved", halved)
    object.__setattr__(session, "norm", max_norm)
    steps = Steps(
        cell=CELL,
        parameters=problem.parameters,
        exchange=exchange,
        dp_rank=0,
        units=units,
    )
    steps.run(session)
    header = RecordHeader(
        problem=Problem(name=problem.name, digest=problem.digest),
        framework=Framework(name="torch"),
        strategy="single",
        layout=LAYOUT,
        dtype=DTYPES["float32"],
        stages=tuple(steps.captures),
        parameters=steps.parameters,
        update=Update(learning_rate=CELL.learning_rate, max_norm=CELL.max_norm),
    )
    return Record(header=header, captures={str(where): capture for where, capture in steps.captures.items()})


class Tampered(Replicated):
    """A session with a fault."""

    halved: bool
    norm: float

    def accumulate(self) -> None:
        super().accumulate()
        if self.halved:
            for parameter in self.masters.trained.values():
                assert parameter.grad is not None
                parameter.grad *= 0.5

    def clip(self, max_norm: float):
        return super().clip(self.norm)


def faults(assay: Assay) -> list[tuple[str, int]]:
    return [(finding.law.pattern.value, finding.count) for finding in assay.findings]


def test_a_healthy_step_agrees_with_itself_at_every_stage() -> None:
    record = trained()
    assert [str(where) for where in record.header.stages] == [f"{stage}.{step}" for step in (1, 2) for stage in STAGES]
    assay = assay_self(record)
    assert assay.verdict is Verdict.AGREE
    assert "reduced.1, clipped.1, update.1, reduced.2, clipped.2, update.2 agree" in assay.notes
    first, second = record.captures["reduced.1"], record.captures["reduced.2"]
    assert abs(first.sketch - second.sketch).max() > 0.01 * abs(first.sketch).max()


def test_a_weight_that_never_trains_is_seen_at_the_update() -> None:
    assay = assay_self(trained(untrained="layers.1.mlp.up.weight"))
    assert (assay.verdict, assay.stage) == (Verdict.DIVERGE, "update.1")
    assert [finding.parameters for finding in assay.findings] == [("layers.1.mlp.up.weight",)]
    assert faults(assay) == [("zero", 1)]


def test_a_wrong_clip_is_seen_where_it_happens() -> None:
    assay = assay_self(trained(max_norm=0.25))
    assert (assay.verdict, assay.stage) == (Verdict.DIVERGE, "clipped.1")
    assert faults(assay) == [("uniform", len(load_problem(CELL.problem).parameters))]


def test_a_gradient_scaled_after_its_backward_pass_is_seen_as_reduced() -> None:
    assay = assay_self(trained(halved=True))
    assert (assay.verdict, assay.stage) == (Verdict.DIVERGE, "reduced.1")
    assert [finding.law.value for finding in assay.findings] == [pytest.approx(0.5)]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"stages": ("reduced", "reducd")}, "no stage is called 'reducd'"),
        ({"stages": ()}, "no stage is named"),
        ({"stages": ("clipped",), "max_norm": 0.0}, "clipped needs a norm"),
        ({"learning_rate": 0.0}, "needs a learning rate"),
    ],
)
def test_stages_that_cannot_be_are_refused(changes: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        replace(CELL, **changes)
