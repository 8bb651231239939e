"""Searching the catalogue."""

from __future__ import annotations

from gradassay.api.web.views.faults import find, listed
from gradassay.goldens.faults import load_catalogue


def test_all_words_must_be_there_in_any_case():
    found = [one.fault.id for one in listed({}, "DeepSpeed expert EP")]
    assert "deepspeed-6545" in found
    assert "megatron-lm-3023" not in found
    assert listed({}, "no such words at all") == ()


def test_what_runs_look_like_comes_first():
    found = listed({"megatron-lm-3023": 2})
    assert (found[0].fault.id, found[0].runs) == ("megatron-lm-3023", 2)
    assert [one.fault.id for one in found[1:]] == [f.id for f in load_catalogue() if f.id != "megatron-lm-3023"]


def test_fault_is_found_by_its_id_only():
    fault = find("deepspeed-6545")
    assert fault is not None
    assert fault.laws == ("ep",)
    assert find("deepspeed") is None
