"""What does not work out is refused with names, both shapes and what to do next."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from gradassay.goldens.errors import Incomplete, UsageError
from gradassay.goldens.header import Parameter
from gradassay.harness.capture.piece import whole
from gradassay.harness.names import NameMap
from gradassay.harness.names.pattern import Pattern
from gradassay.harness.names.rule import Part, Rule, Stack

CANONICAL = tuple(
    Parameter(name=name, shape=shape, family="dense")
    for name, shape in {
        "layers.0.query.weight": (8, 4),
        "layers.0.key.weight": (4, 4),
        "layers.0.value.weight": (4, 4),
        "embedding.weight": (10, 4),
        **{f"layers.0.experts.{expert}.up": (3, 4) for expert in range(6)},
    }.items()
)
A = Pattern("a")
UP = "layers.{layer}.experts.{e}.up"
QKV = tuple(f"layers.{{layer}}.{part}.weight" for part in ("query", "key", "value"))


def rule(source: str, *to: str, **keys: Any) -> Rule:
    return Rule(source=Pattern(source), parts=tuple(Part(to=Pattern(name)) for name in to), **keys)


def own(*to: str, **keys: Any) -> Rule:
    return rule("blocks.{layer}.own", *to, **keys)


def bind(names: NameMap, shapes: dict[str, tuple[int, ...]], **keys: Any) -> Any:
    return names.bind(shapes, CANONICAL, **keys)


def refused(rule: Rule, shape: tuple[int, ...], name: str = "blocks.0.own", **keys: Any) -> UsageError:
    with pytest.raises(UsageError) as caught:
        bind(NameMap(rules=(rule,)), {name: shape}, **keys)
    assert f"{name} {list(shape)}, by rule '{rule.source}': " in caught.value.message
    return caught.value


@pytest.mark.parametrize(
    ("made", "shape", "message", "hint"),
    [
        (own(*QKV), (17, 4), "axis 0 has 17 rows, its parts have 8 + 4 + 4 = 16", "key.weight [4, 4]"),
        (own(*QKV, groups=3), (16, 4), "16 rows along axis 0 in 3 groups", ""),
        (own(*QKV, groups=8), (16, 4), "8 + 4 + 4 = 16 in 8 groups", ""),
        (own(*QKV, axis=2), (16, 4), "split along axis 2 of [16, 4]", ""),
        (own(*QKV, transpose=(2, 0, 1)), (16, 4), "transpose = [2, 0, 1] of 2 axes", ""),
        (own(*QKV[:2]), (16, 4), "its parts have 8 + 4 = 12", ""),
        (own(QKV[0]), (4, 8), "query.weight [4, 8], but its canonical shape is [8, 4]", "lacks a transpose"),
        (own(QKV[0]), (2, 4, 4), "query.weight [2, 4, 4], but its canonical shape is [8, 4]", "lacks a stack"),
        (own(QKV[0], cut=0), (7, 4), "cut along axis 0 to [8, 4], which has more rows than [7, 4]", ""),
        (own(QKV[0], cut=2), (8, 4), "cut along axis 2 of [8, 4]", ""),
        (own("layers.{layer}.qury.weight"), (8, 4), "gives 'layers.0.qury.weight', which is no", "'layers.0.query.weight'?"),
        (own(UP, stack=Stack(of="e")), (3, 3, 4), "axis 0 has 3 rows for 6 numbers of {e}", "local = 'e'"),
        (own(UP, stack=Stack(of="e"), local="e"), (6, 3, 4), "axis 0 has 6 rows for 6 / 2 = 3 numbers", ""),
        (own(UP, stack=Stack(of="e", joined=True)), (20, 4), "axis 0 has 20 rows for 6 numbers", ""),
        (own(UP, stack=Stack(of="e", axis=3)), (6, 3, 4), "stack along axis 3 of [6, 3, 4]", ""),
        (own("layers.{layer}.expert.{e}.up", stack=Stack(of="e")), (6, 3, 4), "'layers.0.expert.0.up'", "'layers.0.experts.0"),
    ],
)  # fmt: skip
def test_a_rule_that_does_not_fit(made: Rule, shape: tuple[int, ...], message: str, hint: str) -> None:
    error = refused(made, shape, ep=2)
    assert message in error.message
    assert hint in error.hint


def test_numbers_of_experts_that_do_not_fit() -> None:
    numbered = rule("blocks.0.{e}", "layers.0.experts.{e}.up", local="e")
    assert "e 3, but each of 2 ranks has 3 of them" in refused(numbered, (3, 4), name="blocks.0.3", ep=2).message
    assert "6 numbers of {e} on 4 expert-parallel ranks" in refused(numbered, (3, 4), name="blocks.0.1", ep=4).message
    bound = bind(NameMap(rules=(numbered,)), {"blocks.0.1": (3, 4)}, ep=3, ep_rank=2)
    assert bound.targets("blocks.0.1") == ("layers.0.experts.5.up",)


def test_sizes_are_proportions() -> None:
    def parts(*sizes: int) -> Rule:
        made = tuple(Part(to=Pattern(name), size=size) for name, size in zip(QKV, sizes, strict=True))
        return Rule(source=Pattern("blocks.{layer}.own"), parts=made, groups=2)

    for sizes in ((2, 1, 1), (4, 2, 2), (8, 4, 4)):
        assert len(bind(NameMap(rules=(parts(*sizes),)), {"blocks.0.own": (16, 4)}).targets("blocks.0.own")) == 3
    assert "a group of 8 rows in 3 + 1 + 1 = 5 shares" in refused(parts(3, 1, 1), (16, 4)).message
    assert "query.weight [4, 4], but its canonical shape is [8, 4]" in refused(parts(1, 2, 1), (16, 4)).message


def test_a_parameter_without_a_rule() -> None:
    names = NameMap(rules=(rule("blocks.{layer}.qkv.weight", *QKV),))
    shapes = {"blocks.0.qkv.weight": (16, 4), "blocks.0.qvk.weight": (16, 4)}
    with pytest.raises(
        Incomplete, match=r"1 parameters are covered by no rule: 'blocks.0.qvk.weight' \[16, 4\]"
    ) as caught:
        bind(names, shapes)
    assert "the rule 'blocks.{layer}.qkv.weight'" in caught.value.hint
    with pytest.raises(Incomplete) as caught:
        bind(names, {"blocks.0.qkv.weight": (16, 4), "embeding.weight": (10, 4)})
    assert caught.value.hint == "nearest to 'embeding.weight': the canonical name 'embedding.weight' [10, 4]"
    with pytest.raises(Incomplete, match=r"6 parameters are covered .* and 2 more") as caught:
        bind(NameMap(), {f"zzz{number}": (1,) for number in range(6)})
    assert "under `ignore`" in caught.value.hint


def test_a_name_that_two_rules_claim() -> None:
    names = NameMap(rules=(rule("blocks.{layer}.q", QKV[0]), rule("blocks.0.q", "layers.0.key.weight")))
    with pytest.raises(UsageError, match=r"'blocks.0.q' is claimed by 2 rules: 'blocks.0.q', 'blocks.{layer}.q'"):
        bind(names, {"blocks.0.q": (8, 4)})
    ignored = NameMap(rules=(rule("blocks.{layer}.q", QKV[0]),), ignore=(Pattern("blocks.0.{q|k}"),))
    with pytest.raises(UsageError, match=r"claimed by 2 rules: 'blocks.{layer}.q', ignore 'blocks.0.{q\|k}'"):
        bind(ignored, {"blocks.0.q": (8, 4)})
    with pytest.raises(UsageError, match="two rules for 'a'"):
        NameMap(rules=(rule("a", "embedding.weight"),), ignore=(Pattern("a"),))


def test_two_sources_for_one_canonical_parameter() -> None:
    names = NameMap.of(
        {"a": "embedding.weight", "b.{n}": "layers.{n}.query.weight", "c.{n}": "layers.{n}.query.weight"}
    )
    message = r"layers.0.query.weight has two sources, 'b.0' \[8, 4\] and 'c.0' \[8, 4\]"
    with pytest.raises(UsageError, match=message) as caught:
        bind(names, {"a": (10, 4), "b.0": (8, 4), "c.0": (8, 4)})
    assert "`tied`" in caught.value.hint


def test_a_rule_that_never_applies() -> None:
    names = NameMap(rules=(rule("blocks.{layer}.attn.query", QKV[0]),))
    with pytest.raises(
        UsageError, match=r"rule 'blocks.{layer}.attn.query' applies to none of the model's 1"
    ) as caught:
        bind(names, {"layers.0.query.weight": (8, 4)})
    assert "`optional = true`" in caught.value.hint
    assert bind(names, {"layers.0.query.weight": (8, 4)}, partial=True).targets("layers.0.query.weight")
    optional = NameMap(rules=(rule("blocks.{layer}.attn.query", QKV[0], optional=True),))
    assert bind(optional, {"embedding.weight": (10, 4)}).targets("embedding.weight") == ("embedding.weight",)


def test_a_canonical_name_of_another_shape() -> None:
    with pytest.raises(UsageError, match=r"embedding.weight \[12, 4\].* canonical shape is \[10, 4\]"):
        bind(NameMap(), {"embedding.weight": (12, 4)})


def test_pieces_that_do_not_fit() -> None:
    binding = bind(NameMap.of({"own": "embedding.weight"}), {"own": (10, 4)})
    with pytest.raises(Incomplete, match=r"own: 40 values for a piece of 44 elements") as caught:
        binding.canonical([whole("own", torch.zeros(40), numel=44)])
    assert caught.value.hint == "its own shape is [10, 4]"
    with pytest.raises(Incomplete, match=r"own: a piece reaches to element 44 of 40"):
        binding.canonical([whole("own", torch.zeros(44), numel=44)])
    with pytest.raises(UsageError, match=r"'other' is not among the shapes"):
        binding.canonical([whole("other", torch.zeros(40), numel=40)])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Pattern("a.{layer"), "'a.{layer' is no pattern"),
        (lambda: Pattern("a.{0}"), r"no pattern: \{0\}"),
        (lambda: Pattern(""), "is no pattern"),
        (lambda: rule("a.{n}", "b"), r"\{n\} stands in only one of it and 'b'"),
        (lambda: rule("a", "b.{n}"), r"\{n\} stands in only one"),
        (lambda: rule("a", "b", axis=1), "axis and groups without parts"),
        (lambda: rule("a", "b", "c", cut=0), "cut together with parts"),
        (lambda: rule("a", "b", transpose=(0, 2)), r"transpose = \[0, 2\] is no order of axes"),
        (lambda: rule("a.{e}", "b.{e}", stack=Stack(of="e")), "which its own name numbers"),
        (lambda: rule("a", "b", local="e"), "local = 'e' is none of its placeholders"),
        (lambda: rule("a.{n}", "b.{e}.{n}", stack=Stack(of="e"), local="n"), "beside a stack of {e}"),
        (lambda: Rule(source=A, parts=(Part(to=None),)), "no canonical name"),
        (lambda: Rule(source=A, parts=(Part(to=Pattern("b")), Part(to=None))), "a part without a name, and no sizes"),
        (lambda: Rule(source=A, parts=(Part(to=Pattern("b"), size=1), Part(to=A))), r"sizes \[1, None\]"),
        (lambda: NameMap(prefixes=("",)), "an empty prefix"),
        (lambda: NameMap(tied=(("a",),)), r"tied: \['a'\] alone"),
        (lambda: NameMap(tied=(("a", "b"), ("b", "c"))), "tied: 'b' twice"),
    ],
)  # fmt: skip
def test_what_contradicts_itself(make: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make()
