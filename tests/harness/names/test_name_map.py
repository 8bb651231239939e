"""Names before any rule applies: patterns, prefixes, tied and ignored parameters, renames of one's own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from gradassay.goldens.errors import UsageError
from gradassay.goldens.header import Parameter
from gradassay.harness.capture.piece import stretch, whole
from gradassay.harness.names import NameMap
from gradassay.harness.names.pattern import Pattern

EMBEDDING = Parameter(name="embedding.weight", shape=(5, 2), family="tied")
VALUES = torch.arange(10.0)


@pytest.mark.parametrize(
    ("pattern", "name", "meanings"),
    [
        ("a.{layer}.b", "a.12.b", {"layer": "12"}),
        ("a.{layer}.b", "a.x.b", None),
        ("a.{layer}.b", "a.01.b", None),
        ("a.{layer}.b", "a.1.b.c", None),
        ("a.b", "axb", None),
        ("w{e}", "w3", {"e": "3"}),
        ("n.{weight|bias}", "n.bias", {"weight|bias": "bias"}),
        ("n.{weight|bias}", "n.scale", None),
        ("{i}.{j}.{i}", "1.2.1", {"i": "1", "j": "2"}),
        ("{i}.{j}.{i}", "1.2.3", None),
    ],
)
def test_patterns(pattern: str, name: str, meanings: dict[str, str] | None) -> None:
    assert Pattern(pattern).match(name) == meanings
    if meanings is not None:
        assert Pattern(pattern).fill(meanings) == name


def test_prefixes_are_dropped_from_the_front() -> None:
    names = NameMap(prefixes=("module.", "_orig_mod."))
    assert names.plain("module._orig_mod.module.a.module.b") == "a.module.b"
    shapes = {"module.embedding.weight": (5, 2)}
    (piece,) = names.canonical([whole("module.embedding.weight", VALUES, numel=10)], shapes, (EMBEDDING,))
    assert piece.name == "embedding.weight"
    with pytest.raises(UsageError, match=r"'module.a' \[1\] and 'a' \[1\] are both 'a' to this map"):
        names.bind({"module.a": (1,), "a": (1,)}, (EMBEDDING,))


def test_tied_names_are_one_parameter() -> None:
    names = NameMap(tied=(("embedding.weight", "head.weight"),))
    both = {"embedding.weight": (5, 2), "head.weight": (5, 2)}
    pieces = [whole(name, VALUES, numel=10) for name in ("head.weight", "embedding.weight")]
    found = names.canonical(pieces, both, (EMBEDDING,))
    assert [(piece.name, piece.runs.tolist()) for piece in found] == [("embedding.weight", [[0, 10]])]
    alone = names.canonical(pieces[:1], {"head.weight": (5, 2)}, (EMBEDDING,))
    assert [piece.name for piece in alone] == ["embedding.weight"]
    copies = [replace(pieces[0], replica=1), pieces[1]]
    assert [piece.replica for piece in names.canonical(copies, both, (EMBEDDING,))] == [1, 0]


def test_tied_names_that_are_not() -> None:
    names = NameMap(tied=(("embedding.weight", "head.weight"),))
    both = {"embedding.weight": (5, 2), "head.weight": (5, 2)}
    first = whole("embedding.weight", VALUES, numel=10)
    for other in (
        whole("head.weight", VALUES + 1, numel=10),
        whole("head.weight", None, numel=10),
        stretch("head.weight", VALUES[:4], start=0, length=4),
    ):
        with pytest.raises(UsageError, match=r"'embedding.weight' and 'head.weight' stand for one tensor, but"):
            names.canonical([first, other], both, (EMBEDDING,))
    with pytest.raises(UsageError, match="tied parameters have one shape"):
        names.bind({"embedding.weight": (5, 2), "head.weight": (2, 5)}, (EMBEDDING,))
    broken = VALUES.clone()
    broken[3] = float("nan")
    same = [whole(name, broken, numel=10) for name in both]
    assert len(names.canonical(same, both, (EMBEDDING,))) == 1


def test_ignored_parameters_are_left_out() -> None:
    names = NameMap(ignore=(Pattern("layers.{layer}.rotary"),))
    shapes = {"layers.3.rotary": (4,), "embedding.weight": (5, 2)}
    pieces = [whole("layers.3.rotary", torch.ones(4), numel=4), whole("embedding.weight", VALUES, numel=10)]
    assert [piece.name for piece in names.canonical(pieces, shapes, (EMBEDDING,))] == ["embedding.weight"]


def test_several_pieces_of_one_parameter() -> None:
    halves = [stretch("embedding.weight", VALUES[at : at + 5], start=at, length=5) for at in (0, 5)]
    found = NameMap().canonical(halves, {"embedding.weight": (5, 2)}, (EMBEDDING,))
    assert [piece.runs.tolist() for piece in found] == [[[0, 5]], [[5, 5]]]


def test_of_takes_what_people_have(tmp_path: Path) -> None:
    (tmp_path / "map.toml").write_text('[rename]\n"net.embedding" = "embedding.weight"\n')
    shapes = {"net.embedding": (5, 2)}
    read = NameMap.of(tmp_path / "map.toml")
    for names in (read, NameMap.of(read), NameMap.of(str(tmp_path / "map.toml"))):
        assert names.bind(shapes, (EMBEDDING,)).targets("net.embedding") == ("embedding.weight",)
    renames = NameMap.of({"net.embedding": "embedding.weight", "net.nothing": "no.parameter"})
    assert renames.bind(shapes, (EMBEDDING,)).targets("net.embedding") == ("embedding.weight",)
    assert NameMap.of(None).bind({"embedding.weight": (5, 2)}, (EMBEDDING,)).targets("embedding.weight")


def test_nothing_held_and_nothing_there() -> None:
    empty = Parameter(name="none", shape=(0, 3), family="dense")
    shapes = {"embedding.weight": (5, 2), "none": (0, 3)}
    pieces = [stretch("embedding.weight", VALUES[:0], start=0, length=0), whole("none", torch.zeros(0), numel=0)]
    found = NameMap().canonical(pieces, shapes, (EMBEDDING, empty))
    assert [(piece.name, len(piece.runs)) for piece in found] == [("none", 0)]
    scalar = Parameter(name="scale", shape=(), family="dense")
    (piece,) = NameMap().canonical([whole("scale", torch.ones(1), numel=1)], {"scale": ()}, (scalar,))
    assert piece.runs.tolist() == [[0, 1]]
