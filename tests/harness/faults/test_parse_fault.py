"""Faults as text: what is read back, and what a mistake is told."""

from __future__ import annotations

import pytest

from gradassay.goldens.assay.result import Pattern
from gradassay.goldens.errors import UsageError
from gradassay.harness.faults import REPORTS, injectable, parse_fault
from gradassay.harness.faults.fault import ALL


@pytest.mark.parametrize("kind", [fault.name for fault in injectable()])
def test_a_name_alone_is_the_fault_on_all_parameters(kind: str):
    fault = parse_fault(kind)
    assert (fault.name, fault.family) == (kind, ALL)
    assert parse_fault(str(fault)) == fault
    if not fault.only_all:
        confined = parse_fault(f"{kind}:expert")
        assert confined.family == "expert"
        assert parse_fault(str(confined)) == confined


def test_every_pattern_can_be_injected():
    assert {fault.pattern for fault in injectable()} == set(Pattern)


@pytest.mark.parametrize(
    ("text", "as_text"),
    [
        ("uniform:expert:scale=ep", "uniform:expert:scale=ep"),
        ("uniform:scale=2**-16", "uniform:all:scale=2**-16"),
        ("last-only:dense", "last-only:dense"),
        ("rank-subset:ranks=2+0", "rank-subset:all:ranks=0+2"),
        ("geometric:norm:base=1/2,scale=1", "geometric:norm:base=1/2,scale=1"),
        ("megatron-lm-3023", "geometric:all"),
        ("megatron-lm-6660:dense", "geometric:dense:base=1/2,scale=1"),
        ("fairseq-4220", "unreduced:expert"),
    ],
)
def test_settings_are_read(text: str, as_text: str):
    assert str(parse_fault(text)) == as_text


@pytest.mark.parametrize("report", REPORTS)
def test_a_report_is_remembered(report: str):
    assert parse_fault(report).report == report


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("unifrom", "did you mean 'uniform'?"),
        ("megatron-lm-3032", "did you mean 'megatron-lm-3023'?"),
        ("uniform:expert:scal=ep", "did you mean 'scale'?"),
        ("uniform:expert:scale=eq", "cannot read 'eq'"),
        ("uniform:scale=0", "inject zero or sign"),
        ("uniform:scale=-dp", "inject zero or sign"),
        ("uniform:expert:dense", "NAME[:FAMILY]"),
        ("uniform::scale=2", "NAME[:FAMILY]"),
        ("uniform:expert:scale=", "NAME[:FAMILY]"),
        ("sign:scale=2", "sign has no settings"),
        ("micro-subset:micros=0,2", "cannot read '2'"),
        ("micro-subset:micros=a", "write it as in 0+2"),
        ("linear:rising=yes", "choose from false, true"),
        ("unexplained:size=-1", "not a number above zero"),
        ("clipped:dense", "cannot be confined to family 'dense'"),
        ("deepspeed-6545:dense", "write deepspeed-6545, or uniform:dense:scale=ep"),
        ("deepspeed-6545:expert:scale=2", "write deepspeed-6545, or deepspeed-6545:FAMILY"),
        ("deepspeed-5555", "context parallelism"),
        ("", "known: "),
    ],
)
def test_a_mistake_is_told_what_to_do(text: str, expected: str):
    with pytest.raises(UsageError) as caught:
        parse_fault(text)
    assert expected in str(caught.value)
