"""Faults injected around any strategy: negative controls whose law is known beforehand."""

from __future__ import annotations

from gradassay.goldens.layout import Layout
from gradassay.harness.faults.before import with_step_before
from gradassay.harness.faults.fault import Expected, InjectableFault
from gradassay.harness.faults.judgement import Judgement, judge
from gradassay.harness.faults.known import injectable
from gradassay.harness.faults.parse import parse_fault
from gradassay.harness.faults.reports import REPORTS
from gradassay.harness.faults.site import Site
from gradassay.harness.interference import Interference
from gradassay.harness.problems.protocol import Problem

__all__ = [
    "REPORTS",
    "Expected",
    "InjectableFault",
    "Judgement",
    "Site",
    "injectable",
    "interference",
    "judge",
    "parse_fault",
    "with_step_before",
]


def interference(
    fault: InjectableFault,
    problem: Problem,
    layout: Layout,
    rank: int,
    *,
    strategy: str = "",
    dtype: str = "float32",
) -> Interference:
    """The changes that a fault makes to the step of one data-parallel rank.

    Raises UsageError, saying what the fault needs, where the cell does not offer it.
    """
    site = Site(problem=problem, layout=layout, strategy=strategy, dtype=dtype, rank=rank)
    fault.check(site)
    return fault.interference(site)
