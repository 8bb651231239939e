"""Injected changes must show, on every kind of strategy, exactly where they were made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rank_scenarios
from gradassay.goldens.layout import Layout
from gradassay.goldens.record import read_record
from gradassay.harness.cell import Cell
from rank_jobs import Failed, Job, record_cell, run_jobs
from truths import captured, ratio, relative_error, truth_of

pytestmark = pytest.mark.dist

EVERY_STRATEGY = {
    "ddp": Layout(dp=4, accum=2),
    "zero1": Layout(dp=4, accum=2),
    "fsdp2": Layout(dp=4, accum=2),
    "hsdp": Layout(dp=4, replicate=2, accum=2),
}
SCENARIOS = [
    *((strategy, layout, name) for strategy, layout in EVERY_STRATEGY.items() for name in ("one_unit_three_times",)),
    ("fsdp2", Layout(dp=4, ep=2, accum=2), "counted_hooks"),
    ("ddp", Layout(dp=4, ep=2, accum=2), "counted_hooks"),
    ("ddp", Layout(dp=4, ep=2, accum=2), "auxiliary_five_times"),
    ("ddp", Layout(dp=4), "another_copy"),
    ("fsdp2", Layout(dp=4), "lost_piece"),
    ("fsdp2", Layout(dp=4), "one_infinity"),
    ("fsdp2", Layout(dp=4, ep=2, accum=2), "divide_factor_unset"),
]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Any]:
    """What the ranks returned and the file, by strategy and scenario; the last scenario patches torch, and stays last."""
    folder = tmp_path_factory.mktemp("records")
    jobs = [
        Job(
            function=record_cell,
            arguments=(
                Cell(problem="moe-tiny", strategy=strategy, layout=layout),
                folder / f"{strategy} {name}",
                getattr(rank_scenarios, name),
            ),
        )
        for strategy, layout, name in SCENARIOS
    ]
    returned = run_jobs(4, jobs)
    return {
        (strategy, name): (found, folder / f"{strategy} {name}")
        for (strategy, _, name), found in zip(SCENARIOS, returned, strict=True)
    }


Results = dict[tuple[str, str], tuple[list[Any], Path]]


@pytest.mark.parametrize("strategy", EVERY_STRATEGY)
def test_a_unit_that_counts_three_times(results: Results, strategy: str):
    layout, truth = EVERY_STRATEGY[strategy], truth_of("moe-tiny")
    weights = np.ones(layout.units)
    weights[layout.unit(1, 0)] = 3
    found = captured(read_record(results[strategy, "one_unit_three_times"][1]))
    assert relative_error(found, truth.gradient(layout, weights)).max() < 1e-6
    reached = np.linalg.norm(sum(truth.terms.values())[layout.unit(1, 0)], axis=1) > 0
    assert relative_error(found, truth.gradient(layout))[reached].min() > 1e-2


@pytest.mark.parametrize("strategy", ["ddp", "fsdp2"])
def test_hooks_are_called_once_for_every_parameter_and_micro_step(results: Results, strategy: str):
    found = captured(read_record(results[strategy, "counted_hooks"][1]))
    assert relative_error(found, truth_of("moe-tiny").gradient(Layout(dp=4, ep=2, accum=2))).max() < 1e-6


def test_a_term_that_counts_five_times(results: Results):
    layout, truth = Layout(dp=4, ep=2, accum=2), truth_of("moe-tiny")
    found = captured(read_record(results["ddp", "auxiliary_five_times"][1]))
    added = 4 * truth.terms["aux"][: layout.units].mean(0)
    assert relative_error(found, truth.gradient(layout) + added).max() < 1e-6
    routers = truth.rows("router")
    assert relative_error(found, truth.gradient(layout))[routers].min() > 0.02


def test_copies_that_differ_are_kept(results: Results):
    record = read_record(results["ddp", "another_copy"][1])
    copies = record.captures["reduced.1"].rank_sketch
    assert copies is not None
    names = [parameter.name for parameter in record.header.parameters]
    head = names.index("head.weight")
    assert np.allclose(copies[1:, head], 2 * copies[0, head])
    assert np.array_equal(copies[0, head], captured(record)[head])
    assert not np.delete(copies, head, axis=1).any(), "rows of parameters whose copies agree stay empty"


def test_a_piece_that_is_missing_is_an_error_on_every_rank(results: Results):
    returned, path = results["fsdp2", "lost_piece"]
    assert not path.exists()
    for failed in returned:
        assert isinstance(failed, Failed)
        assert failed.kind == "Incomplete"
        assert "norm.weight: elements [48, 64) of 64 are held by no rank" in failed.message


def test_an_infinity_poisons_nothing_else(results: Results):
    record = read_record(results["fsdp2", "one_infinity"][1])
    capture = record.captures["reduced.1"]
    hit = [parameter.name for parameter in record.header.parameters].index("layers.0.mlp.up.weight")
    assert capture.nonfinite[hit] == 1
    assert capture.nonfinite.sum() == 1
    errors = relative_error(capture.sketch, truth_of("moe-tiny").gradient(Layout(dp=4)))
    assert np.delete(errors, hit).max() < 1e-6


def test_a_divide_factor_left_unset_is_seen(results: Results):
    layout, truth = Layout(dp=4, ep=2, accum=2), truth_of("moe-tiny")
    found = ratio(captured(read_record(results["fsdp2", "divide_factor_unset"][1])), truth.gradient(layout))
    experts = truth.rows("expert")
    assert np.allclose(found[experts], layout.ep, rtol=1e-6)
    assert np.allclose(np.delete(found, experts), 1, rtol=1e-6)
