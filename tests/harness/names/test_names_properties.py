"""Random tensors, rules and shards: what ranks hold together is the transformation of the whole, element by element."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gradassay.goldens.errors import GradassayError
from gradassay.goldens.header import Parameter
from gradassay.goldens.sketch import sketch, sketch_runs
from gradassay.harness.capture.piece import Piece
from gradassay.harness.names import NameMap
from gradassay.harness.names.pattern import Pattern
from gradassay.harness.names.rule import Part, Rule, Stack
from name_shards import assembled, piece_of, shards

DTYPES = (torch.float32, torch.float64, torch.bfloat16)


@dataclass(frozen=True, kw_only=True)
class Case:
    """A rule, what canonical tensors there are, and the framework's tensor that was made of them without the rule."""

    rule: Rule
    canonical: dict[str, torch.Tensor]
    own: dict[int, torch.Tensor]
    ep: int

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        return tuple(
            Parameter(name=name, shape=tuple(values.shape), family="dense") for name, values in self.canonical.items()
        )

    def names(self, rule: Rule | None = None) -> NameMap:
        return NameMap(rules=(rule or self.rule,))


def fuse(parts: list[torch.Tensor], axis: int, groups: int) -> torch.Tensor:
    """Group by group the rows of every part."""
    chunks = [torch.chunk(part, groups, dim=axis) for part in parts]
    return torch.cat([chunk[group] for group in range(groups) for chunk in chunks], dim=axis)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Canonical tensors first; the framework's tensor is built from them as a framework would build it."""
    shape = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    axis = draw(st.integers(0, len(shape) - 1))
    count = draw(st.integers(1, 3))
    groups = draw(st.integers(1, 3)) if count > 1 else 1
    rows = [draw(st.integers(1, 3)) for _ in range(count)]
    ep = draw(st.sampled_from([1, 2]))
    stacked = draw(st.sampled_from(["", "stack", "joined"]))
    local = draw(st.integers(1, 3)) if stacked else 1
    of = ".{expert}" if stacked else ""
    dtype = draw(st.sampled_from(DTYPES))
    random = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    canonical: dict[str, torch.Tensor] = {}
    own: dict[int, torch.Tensor] = {}
    pad = draw(st.integers(0, 2)) if count == 1 else 0
    order = tuple(draw(st.permutations(range(len(shape)))))
    stack_axis = draw(st.integers(0, len(shape) - (stacked == "joined"))) if stacked else 0
    for ep_rank in range(ep if stacked else 1):
        fused = []
        for expert in range(local):
            parts = []
            for number, size in enumerate(rows):
                extents = list(shape)
                extents[axis] = size * groups
                values = torch.randn(extents, generator=random, dtype=torch.float64).to(dtype)
                canonical[f"part{number}" + of.replace("{expert}", str(ep_rank * local + expert))] = values
                parts.append(values)
            whole = fuse(parts, axis, groups)
            extents = list(shape)
            extents[axis] = pad
            whole = torch.cat([whole, torch.full(extents, 7.0, dtype=dtype)], dim=axis)
            fused.append(whole.permute(*np.argsort(order).tolist()).contiguous())
        if stacked:
            own[ep_rank] = (
                torch.cat(fused, dim=stack_axis) if stacked == "joined" else torch.stack(fused, dim=stack_axis)
            )
        else:
            own[ep_rank] = fused[0]
    sizes = draw(st.sampled_from([None, 1, 2])) if count > 1 else None
    rule = Rule(
        source=Pattern("own"),
        parts=tuple(
            Part(to=Pattern(f"part{number}{of}"), size=None if sizes is None else size * sizes)
            for number, size in enumerate(rows)
        ),
        axis=axis if count > 1 else 0,
        groups=groups,
        stack=Stack(of="expert", axis=stack_axis, joined=stacked == "joined") if stacked else None,
        local="expert" if stacked and (ep > 1 or draw(st.booleans())) else None,
        transpose=None if list(order) == sorted(order) and draw(st.booleans()) else order,
        cut=axis if pad or (count == 1 and draw(st.booleans())) else None,
    )
    return Case(rule=rule, canonical=canonical, own=own, ep=ep if stacked else 1)


def mapped(case: Case, data: st.DataObject, rule: Rule | None = None) -> tuple[list[Piece], int]:
    """All ranks' canonical pieces, and how many values they had before."""
    found: list[Piece] = []
    held = 0
    for ep_rank, values in case.own.items():
        for runs in data.draw(shards(tuple(values.shape), 3)):
            piece = piece_of("own", values, runs)
            held += len(piece.values)
            shapes = {"own": tuple(values.shape)}
            found += case.names(rule).canonical([piece], shapes, case.parameters, ep_rank=ep_rank, ep=case.ep)
    return found, held


@settings(max_examples=400, deadline=None)
@given(case=cases(), data=st.data())
def test_the_pieces_are_the_canonical_tensors(case: Case, data: st.DataObject) -> None:
    pieces, held = mapped(case, data)
    found = assembled(pieces, case.parameters)
    for name, values in case.canonical.items():
        assert found[name].dtype == values.dtype
        assert torch.equal(found[name], values), name
    assert sum(len(piece.values) for piece in pieces) <= held


@settings(max_examples=60, deadline=None)
@given(case=cases(), data=st.data())
def test_sketches_of_the_pieces_add_up(case: Case, data: st.DataObject) -> None:
    pieces, _ = mapped(case, data)
    for parameter in case.parameters:
        own = [piece for piece in pieces if piece.name == parameter.name]
        total = sum(
            sketch_runs(piece.values.double().numpy(), piece.runs, parameter.numel)
            for piece in own
            if piece.values is not None
        )
        expected = sketch(case.canonical[parameter.name].double().reshape(-1).numpy())
        assert np.allclose(total, expected, rtol=1e-12, atol=1e-12)


@settings(max_examples=60, deadline=None)
@given(case=cases(), data=st.data())
def test_pieces_without_a_gradient_have_the_same_runs(case: Case, data: st.DataObject) -> None:
    values = case.own[0]
    for runs in data.draw(shards(tuple(values.shape), 2)):
        piece = piece_of("own", values, runs)
        binding = case.names().bind({"own": tuple(values.shape)}, case.parameters, ep=case.ep)
        given_, without = binding.canonical([piece]), binding.canonical([replace(piece, values=None)])
        assert [(part.name, part.runs.tolist()) for part in given_] == [
            (part.name, part.runs.tolist()) for part in without
        ]
        assert all(part.values is None for part in without)


def _interleaved() -> Case:
    """Query, key and value of one size, by groups, stacked and transposed: shapes tell no mistake."""
    canonical, own = {}, {}
    random = torch.Generator().manual_seed(4)
    for ep_rank in range(2):
        fused = []
        for expert in range(6):
            parts = [torch.randn(6, 18, generator=random) for _ in range(3)]
            for name, part in zip("qkv", parts, strict=True):
                canonical[f"{ep_rank * 6 + expert}.{name}"] = part
            fused.append(fuse(parts, 0, 2).T)
        own[ep_rank] = torch.stack(fused)
    rule = Rule(
        source=Pattern("own"),
        parts=tuple(Part(to=Pattern(f"{{expert}}.{name}")) for name in "qkv"),
        groups=2,
        stack=Stack(of="expert"),
        local="expert",
        transpose=(1, 0),
    )
    return Case(rule=rule, canonical=canonical, own=own, ep=2)


CORRUPTED = {
    "parts swapped": {"parts": tuple(Part(to=Pattern(f"{{expert}}.{name}")) for name in "kqv")},
    "not in groups": {"groups": 1},
    "other groups": {"groups": 3},
    "not transposed": {"transpose": None},
    "another axis": {"axis": 1},
    "stacked elsewhere": {"stack": Stack(of="expert", axis=1)},
    "joined": {"stack": Stack(of="expert", joined=True)},
    "numbers taken for global": {"local": None},
    "other sizes": {
        "parts": tuple(Part(to=Pattern(f"{{expert}}.{n}"), size=s) for n, s in zip("qkv", (1, 2, 3), strict=True))
    },
}


@pytest.mark.parametrize("corrupted", [None, *CORRUPTED])
def test_a_corrupted_rule_is_seen(corrupted: str | None) -> None:
    case = _interleaved()
    rule = case.rule if corrupted is None else replace(case.rule, **CORRUPTED[corrupted])
    pieces = []
    refused = False
    for ep_rank, values in case.own.items():
        piece = piece_of("own", values, [[0, 1000], [1000, values.numel() - 1000]])
        try:
            pieces += case.names(rule).canonical(
                [piece], {"own": tuple(values.shape)}, case.parameters, ep_rank=ep_rank, ep=2
            )
        except GradassayError:
            refused = True
    same = not refused and all(
        torch.equal(values, case.canonical[name]) for name, values in assembled(pieces, case.parameters).items()
    )
    assert same == (corrupted is None)
