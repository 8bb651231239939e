"""Runs as boxes: the same elements in the same order, and few of them where the runs are regular."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gradassay.goldens.header import Parameter
from gradassay.harness.capture.local import block_runs
from gradassay.harness.names import NameMap
from gradassay.harness.names.boxes import boxes
from gradassay.harness.names.pattern import Pattern
from gradassay.harness.names.rule import Part, Rule, Stack
from name_shards import piece_of


@given(
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=4).map(tuple),
    seed=st.integers(0, 10**6),
    cuts=st.integers(0, 12),
)
def test_boxes_are_the_elements_of_the_runs_in_order(sizes: tuple[int, ...], seed: int, cuts: int) -> None:
    random, total = np.random.default_rng(seed), int(np.prod(sizes))
    edges = np.unique(np.concatenate(([0, total], random.integers(0, total + 1, cuts))))
    runs = np.stack((edges[:-1], np.diff(edges)), axis=1)[random.permutation(len(edges) - 1)]
    elements = np.arange(total).reshape(sizes)
    wanted = np.concatenate([np.arange(first, first + length) for first, length in runs.tolist()])
    found = boxes(runs, sizes)
    values = []
    for origin, extent, before in zip(found.origin, found.extent, found.before, strict=True):
        assert before == sum(map(len, values))
        place = tuple(slice(first, first + size) for first, size in zip(origin, extent, strict=True))
        values.append(elements[place].reshape(-1))
    assert (np.concatenate(values) == wanted).all()
    assert len(values) <= len(runs) * (2 * len(sizes) - 1)


@given(st.data())
def test_a_block_is_one_box(data: st.DataObject) -> None:
    sizes = tuple(data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=4)))
    offset = tuple(data.draw(st.integers(0, size - 1)) for size in sizes)
    extent = tuple(data.draw(st.integers(1, size - first)) for size, first in zip(sizes, offset, strict=True))
    found = boxes(block_runs(sizes, offset, extent), sizes)
    assert found.origin.tolist() == [list(offset)]
    assert found.extent.tolist() == [list(extent)]


def test_no_runs_are_no_boxes() -> None:
    for runs in (np.empty((0, 2), dtype=np.int64), np.array([[3, 0]])):
        assert len(boxes(runs, (2, 3)).origin) == 0


def _parts(
    rule: Rule, shape: tuple[int, ...], canonical: dict[str, tuple[int, ...]], runs: object
) -> dict[str, object]:
    parameters = tuple(Parameter(name=name, shape=size, family="dense") for name, size in canonical.items())
    piece = piece_of("own", torch.arange(float(np.prod(shape))), runs)
    parts = NameMap(rules=(rule,)).canonical([piece], {"own": shape}, parameters)
    return {part.name: part.runs.tolist() for part in parts}


def _rule(*to: str, **keys: object) -> Rule:
    return Rule(source=Pattern("own"), parts=tuple(Part(to=Pattern(name)) for name in to), **keys)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("rule", "shape", "canonical", "runs", "expected"),
    [
        (_rule("a"), (10, 4), {"a": (10, 4)}, [[6, 7], [13, 20]], {"a": [[6, 27]]}),
        (
            _rule("a", transpose=(1, 0)),
            (8, 3),
            {"a": (3, 8)},
            [[6, 12]],
            {"a": [[2, 4], [10, 4], [18, 4]]},
        ),
        (
            _rule("a", transpose=(1, 0)),
            (4, 6),
            {"a": (6, 4)},
            block_runs((4, 6), (0, 2), (4, 2)).tolist(),
            {"a": [[8, 8]]},
        ),
        (
            _rule("q", "k", "v", groups=2),
            (12, 5),
            {"q": (8, 5), "k": (2, 5), "v": (2, 5)},
            [[0, 60]],
            {"q": [[0, 40]], "k": [[0, 10]], "v": [[0, 10]]},
        ),
        (_rule("q", "k"), (6, 5), {"q": (2, 5), "k": (4, 5)}, [[7, 13]], {"q": [[7, 3]], "k": [[0, 10]]}),
        (
            _rule("{e}", stack=Stack(of="e")),
            (3, 2, 4),
            {"0": (2, 4), "1": (2, 4), "2": (2, 4)},
            [[5, 12]],
            {"0": [[5, 3]], "1": [[0, 8]], "2": [[0, 1]]},
        ),
    ],
    ids=["runs join", "rows become columns", "columns become rows", "groups join", "a run over two parts", "stack"],
)
def test_few_runs_stay_few(
    rule: Rule,
    shape: tuple[int, ...],
    canonical: dict[str, tuple[int, ...]],
    runs: list[list[int]],
    expected: dict[str, list[list[int]]],
) -> None:
    assert _parts(rule, shape, canonical, runs) == expected
