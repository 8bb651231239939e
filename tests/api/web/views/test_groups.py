"""Groups of the inbox as sentences."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from gradassay.api.web.views.groups import report, sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    families: tuple[str, ...] = ("expert",)
    formula: str = "w[r,m] = ep"
    pattern: str = "uniform"
    count: int = 16
    layouts: tuple[str, ...] = ("dp4.ep2", "dp8.ep2", "dp8.ep4")
    known_faults: tuple[str, ...] = ("deepspeed-6545",)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "16 expert parameters, w = ep, in 3 layouts, like DeepSpeed #6545"),
        (
            {"count": 1, "layouts": ("dp4",), "known_faults": ()},
            "1 expert parameter, w = ep, in 1 layout",
        ),
        (
            {"families": ("dense", "norm"), "known_faults": ("somewhere-1",)},
            "16 dense and norm parameters, w = ep, in 3 layouts, like somewhere-1",
        ),
        (
            {"families": (), "formula": "", "pattern": "incomplete", "known_faults": ()},
            "incomplete, in 3 layouts",
        ),
    ],
)
def test_group_is_one_sentence(changes: dict, expected: str):
    assert sentence(replace(Group(), **changes)) == expected


def test_reports_are_called_what_people_call_them():
    assert report("megatron-lm-3023") == "Megatron-LM #3023"
    assert report("Buffer added to itself where the data-parallel group has one rank") == "Megatron-LM #6660"
