"""Faults injected around real runs are detected and named, and nothing is found where none was injected."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from gradassay.goldens.assay.compare import assay_record
from gradassay.goldens.assay.result import Assay, Verdict
from gradassay.goldens.golden import Golden, read_golden
from gradassay.goldens.layout import Layout
from gradassay.goldens.record import Record, read_record
from gradassay.harness.build import build_golden
from gradassay.harness.cell import Cell
from gradassay.harness.controls import altered
from gradassay.harness.faults import Judgement, Site, judge, parse_fault, with_step_before
from gradassay.harness.launch import Pool, run_cells
from gradassay.harness.problems import load_problem

pytestmark = pytest.mark.dist

PROBLEM = "moe-tiny"
LAYOUT = Layout(dp=4, ep=2, accum=3)
STRATEGIES = {"ddp": LAYOUT, "fsdp2": LAYOUT, "hsdp": replace(LAYOUT, replicate=2)}
INJECTED = [
    ("ddp", "deepspeed-6545"),
    ("ddp", "megatron-lm-3023"),
    ("ddp", "nanogpt-30"),
    ("ddp", "last-only:dense"),
    ("ddp", "rank-subset:expert:ranks=0+2"),
    ("ddp", "rank-disagreement"),
    ("ddp", "term:router"),
    ("ddp", "missing:bias"),
    ("ddp", "zero:norm"),
    ("fsdp2", "megatron-lm-3023"),
    ("fsdp2", "unreduced"),
    ("fsdp2", "stale:router"),
    ("fsdp2", "permuted:expert"),
    ("fsdp2", "non-finite:embedding"),
    ("fsdp2", "precision:dense"),
    ("fsdp2", "unexplained:bias"),
    ("fsdp2", "clipped"),
    ("fsdp2", "sign:expert"),
    ("fsdp2", "micro-subset:norm"),
    ("ddp", "own-again"),
    ("ddp", "unreduced"),
    ("ddp", "permuted"),
    ("fsdp2", "own-again:whole=true"),
    ("fsdp2", "reduced-again:dense"),
    ("fsdp2", "reduced-again:dense:twice=true"),
    ("hsdp", "unreduced:group=rank"),
    ("hsdp", "unreduced:dense"),
    ("hsdp", "rank-disagreement:ranks=1"),
]


@dataclass(frozen=True, kw_only=True)
class Runs:
    """golden: of the first units, with the step before. records, assays: by (strategy, fault as text)."""

    golden: Golden
    records: dict[tuple[str, str], Record]
    assays: dict[tuple[str, str], Assay]

    def judge(self, strategy: str, injected: str, *, as_if: str = "") -> Judgement:
        """The judgement of what was injected, `as_if` it had been another fault."""
        layout = STRATEGIES[strategy]
        site = Site(problem=load_problem(PROBLEM), layout=layout, strategy=strategy)
        return judge(parse_fault(as_if or injected), self.assays[strategy, injected], self.golden, site)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """All runs, in one pool."""
    folder = tmp_path_factory.mktemp("faults")
    healthy = [Cell(problem=PROBLEM, strategy=strategy, layout=layout) for strategy, layout in STRATEGIES.items()]
    faulty = [
        Cell(problem=PROBLEM, strategy=strategy, layout=STRATEGIES[strategy], fault=fault)
        for strategy, fault in INJECTED
    ]
    single = Cell(problem=PROBLEM, strategy="single", layout=Layout(accum=LAYOUT.units))
    with Pool() as pool:
        whole = build_golden(PROBLEM, "float32", [*healthy, single], pool=pool, folder=folder / "references")
        _cut(whole).write(folder / "golden")
        golden = read_golden(folder / "golden")
        outcomes = run_cells([*healthy, *faulty], folder, pool)
    records = {(outcome.cell.strategy, outcome.cell.fault): read_record(outcome.require()) for outcome in outcomes}
    assays = {key: assay_record(record, golden) for key, record in records.items()}
    return Runs(golden=golden, records=records, assays=assays)


def _cut(golden: Golden) -> Golden:
    """The golden of no more units than the layout has, together with the step before."""
    problem, units = load_problem(PROBLEM), LAYOUT.units
    now = golden.bases[1]
    basis = replace(
        now,
        sketch=now.sketch[:units],
        norm2=now.norm2[:units],
        terms={term: sketch[:units] for term, sketch in now.terms.items()},
    )
    header = replace(golden.header, units=golden.header.units[:units])
    return with_step_before(replace(golden, header=header, bases={1: basis}), problem)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_without_a_fault_the_same_cell_agrees(runs: Runs, strategy: str):
    assay = runs.assays[strategy, ""]
    assert assay.verdict is Verdict.AGREE
    assert not assay.findings


@pytest.mark.parametrize(("strategy", "fault"), INJECTED)
def test_a_fault_is_detected_and_named(runs: Runs, strategy: str, fault: str):
    judgement = runs.judge(strategy, fault)
    assert judgement.detected
    assert not judgement.complaints
    assert judgement.named


def test_formulas_are_those_of_the_public_reports(runs: Runs):
    assert runs.judge("ddp", "deepspeed-6545").laws == ("uniform: w[r,m] = ep",)
    assert runs.judge("fsdp2", "megatron-lm-3023").laws == ("geometric: w[r,m] = dp**(m-M+2)",)


@pytest.mark.parametrize(
    ("strategy", "injected", "as_if"),
    [
        ("ddp", "deepspeed-6545", "sign:expert"),
        ("ddp", "deepspeed-6545", "uniform:all:scale=ep"),
        ("ddp", "deepspeed-6545", "uniform:expert:scale=1/ep"),
        ("ddp", "last-only:dense", "last-only:norm"),
        ("ddp", "last-only:dense", "last-only:dense:scale=accum"),
        ("ddp", "", "sign"),
        ("fsdp2", "permuted:expert", "permuted:dense"),
        ("fsdp2", "unexplained:bias", "precision:bias"),
        ("fsdp2", "megatron-lm-3023", "geometric:scale=1"),
        ("hsdp", "unreduced:dense", "unreduced:dense:group=rank"),
    ],
)
def test_another_fault_is_not_taken_for_it(runs: Runs, strategy: str, injected: str, as_if: str):
    judgement = runs.judge(strategy, injected, as_if=as_if)
    assert judgement.complaints
    assert not judgement.named


@pytest.mark.parametrize("fault", [fault for strategy, fault in INJECTED if strategy == "ddp"])
def test_arithmetic_on_an_honest_record_gives_what_a_broken_step_does(runs: Runs, fault: str):
    """Both sides round on their own, so that they are as far apart as two honest runs."""
    site = Site(problem=load_problem(PROBLEM), layout=LAYOUT)
    broken = runs.records["ddp", fault].captures["reduced.1"]
    made = altered(runs.records["ddp", ""], parse_fault(fault), site, runs.golden).captures["reduced.1"]
    size = np.linalg.norm(runs.records["ddp", ""].captures["reduced.1"].sketch, axis=1)
    assert (np.linalg.norm(made.sketch - broken.sketch, axis=1) <= 1e-5 * size).all()
    assert np.allclose(made.norm2, broken.norm2, rtol=0.3)
    assert made.present.tolist() == broken.present.tolist()
    assert (made.rank_sketch is None) == (broken.rank_sketch is None)
    if made.rank_sketch is not None and broken.rank_sketch is not None:
        differing = broken.rank_sketch.any(axis=(0, 2))
        assert differing.any()
        apart = np.linalg.norm(made.rank_sketch - broken.rank_sketch, axis=2)[:, differing]
        assert (apart <= 1e-5 * LAYOUT.dp * size[differing]).all()
