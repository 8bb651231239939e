"""The catalogue: every entry is whole, and names what it should and nothing else."""

from __future__ import annotations

import re

import pytest

from foreign import Sizes
from gradassay.goldens.assay.result import Pattern
from gradassay.goldens.faults import load_catalogue, load_conventions, look_alikes
from law_text import claimed

FORMULAS = {Pattern.UNIFORM, Pattern.GEOMETRIC, Pattern.LAST_ONLY, Pattern.FIRST_ONLY, Pattern.PARTLY_UNREDUCED}
# Symbols of faults whose factor is no size of a layout.
OTHER_SYMBOLS = {"max_norm", "norm", "etp", "active"}


def test_entries_are_unique_and_say_where_they_come_from() -> None:
    faults = load_catalogue()
    assert len({fault.id for fault in faults}) == len(faults) >= 20
    for fault in faults:
        assert fault.title
        assert re.search(r"\d|[0-9a-f]{7}", fault.report), fault.id
        assert fault.frameworks
        assert fault.families


@pytest.mark.parametrize("fault", load_catalogue(), ids=lambda fault: fault.id)
def test_laws_can_be_read(fault: object) -> None:
    entry = next(item for item in load_catalogue() if item is fault)
    for law in entry.laws if entry.pattern in FORMULAS else ():
        if not OTHER_SYMBOLS & set(re.findall(r"[a-z_]+", law)):
            claimed(law, Sizes(4, ep=2, tp=2, cp=2, pp=2, accum=3), [512] * 12)


@pytest.mark.parametrize(
    ("pattern", "laws", "families", "whole", "framework", "first"),
    [
        (Pattern.UNIFORM, ["ep"], ["expert"], False, "deepspeed", "deepspeed-6545"),
        (Pattern.UNIFORM, ["ep"], ["expert"], False, "torchtitan", "torchtitan-1551"),
        (Pattern.GEOMETRIC, ["dp**(m-M+2)"], ["dense"], False, "megatron-fsdp", "megatron-lm-3023"),
        (Pattern.UNIFORM, ["dp", "dp**(m-M+2)"], ["dense"], False, "megatron-fsdp", "megatron-lm-3023"),
        (Pattern.UNIFORM, ["1/accum"], ["dense", "expert"], True, "deepspeed", "deepspeed-7724"),
        (Pattern.UNIFORM, ["2"], ["tied"], False, "torchtitan", "torchtitan-3174"),
        (Pattern.PERMUTED, [], ["expert"], False, "deepspeed", "deepspeed-545"),
    ],
)
def test_signatures(
    pattern: Pattern, laws: list[str], families: list[str], whole: bool, framework: str, first: str
) -> None:
    assert look_alikes(pattern, laws, families, whole=whole, framework=framework)[0] == first


def test_a_signature_needs_its_law_family_and_extent() -> None:
    """Negative controls of the above."""
    assert "deepspeed-6545" not in look_alikes(Pattern.UNIFORM, ["dp"], ["expert"], whole=False)
    assert "deepspeed-6545" not in look_alikes(Pattern.UNIFORM, ["ep"], ["dense"], whole=False)
    assert "deepspeed-7724" not in look_alikes(Pattern.UNIFORM, ["1/accum"], ["dense"], whole=False)
    assert "megatron-lm-3023" not in look_alikes(Pattern.LINEAR, ["dp**(m-M+2)"], ["dense"], whole=False)
    assert not look_alikes(Pattern.UNIFORM, ["1.37"], ["dense"], whole=False)


def test_conventions() -> None:
    assert [convention.scale for convention in load_conventions() if "expert" in convention.families] == ["1/ep"]
