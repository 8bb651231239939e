"""Scales: their texts, what is the same by definition, and which ones a number may be."""

from __future__ import annotations

import pytest

from gradassay.goldens.assay.convention import evaluate
from gradassay.goldens.assay.scale import Scale, matching, number, scales, sizes
from gradassay.goldens.layout import Layout

LAYOUT = Layout(dp=12, ep=3, tp=5, accum=7)
VALUES = sizes(LAYOUT, tokens=8400)


def test_values_of_symbols() -> None:
    assert VALUES["edp"] == 4
    assert VALUES["world"] == 60
    assert VALUES["units"] == 84
    assert "tokens" not in sizes(LAYOUT)


@pytest.mark.parametrize(
    ("scale", "text"),
    [
        (Scale(), "1"),
        (Scale(powers=(("dp", 1),)), "dp"),
        (Scale(powers=(("dp", -1),)), "1/dp"),
        (Scale(powers=(("dp", 2),)), "dp**2"),
        (Scale(powers=(("dp", -2),)), "dp**-2"),
        (Scale(powers=(("dp", 1), ("ep", -1))), "dp/ep"),
        (Scale(powers=(("dp", -1), ("accum", -1))), "1/(dp*accum)"),
        (Scale(powers=(("dp", 1),), constant=0.5), "dp/2"),
        (Scale(powers=(("dp", 1),), constant=1 / 3), "dp/3"),
        (Scale(constant=2.0**16), "2**16"),
        (Scale(constant=2.0**-16), "2**-16"),
        (Scale(constant=0.5), "1/2"),
        (number(1.00001), "1.00001"),
        (number(3.0), "3"),
    ],
)
def test_texts_can_be_evaluated(scale: Scale, text: str) -> None:
    assert str(scale) == text
    assert evaluate(text, VALUES) == pytest.approx(scale.value(VALUES))


def test_every_text_means_its_value() -> None:
    for scale in scales(VALUES):
        assert evaluate(str(scale), VALUES) == pytest.approx(scale.value(VALUES)), scale


def test_texts_are_unique() -> None:
    texts = [str(scale) for scale in scales(VALUES)]
    assert len(set(texts)) == len(texts)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Scale(powers=(("dp", 1), ("edp", -1))), Scale(powers=(("ep", 1),))),
        (Scale(powers=(("edp", 1),)), Scale(powers=(("dp", 1), ("ep", -1)))),
        (Scale(powers=(("units", 1),)), Scale(powers=(("accum", 1), ("dp", 1)))),
        (Scale(powers=(("world", 1),)), Scale(powers=(("cp", 1), ("dp", 1), ("pp", 1), ("tp", 1)))),
    ],
)
def test_same_by_definition(one: Scale, other: Scale) -> None:
    assert one.definition == other.definition
    assert not {one.definition} & {Scale(powers=(("accum", 1),)).definition}


def test_definitions_appear_once() -> None:
    definitions = [scale.definition for scale in scales(VALUES)]
    assert len(set(definitions)) == len(definitions)


def test_sizes_of_one_explain_nothing() -> None:
    used = {name for scale in scales(sizes(Layout(dp=4))) for name, _ in scale.powers}
    assert used == {"dp"}


def test_matching_is_shortest_first_and_within_the_tolerance() -> None:
    values = sizes(Layout(dp=4, ep=2))
    found = matching(2.0, values, relative_tolerance=1e-9)
    assert [str(scale) for scale in found[:2]] == ["ep", "edp"]
    assert {"2", "dp/2"} <= {str(scale) for scale in found}
    assert not matching(2.001, values, relative_tolerance=1e-6)
    assert matching(2.001, values, relative_tolerance=1e-3)


def test_one_is_nothing_but_one() -> None:
    assert matching(1.0, sizes(Layout(dp=4, ep=4, accum=4)), relative_tolerance=1e-6) == [Scale()]


def test_experts_think_of_ep_first() -> None:
    values = sizes(Layout(dp=4, ep=4))
    found = matching(4.0, values, relative_tolerance=1e-9)
    assert str(min(found, key=lambda scale: scale.bits(expert=True))) == "ep"
    assert str(min(found, key=lambda scale: scale.bits())) == "dp"


def test_token_counts() -> None:
    for text in ("tokens", "1/tokens", "tokens/units", "units/tokens"):
        target = evaluate(text, VALUES)
        assert text in {str(scale) for scale in matching(target, VALUES, relative_tolerance=1e-12)}
