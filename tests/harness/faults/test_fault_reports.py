"""Public reports: every one of the catalogue is injected faithfully, or said not to be."""

from __future__ import annotations

import pytest

from gradassay.goldens.faults import load_catalogue
from gradassay.goldens.layout import Layout
from gradassay.harness.faults import REPORTS, Site, parse_fault
from gradassay.harness.faults.fault import ALL
from gradassay.harness.faults.reports import ELSEWHERE
from gradassay.harness.problems import load_problem

CATALOGUE = {fault.id: fault for fault in load_catalogue()}


def test_the_whole_catalogue_is_accounted_for():
    assert set(CATALOGUE) == {*REPORTS, *ELSEWHERE}
    assert not {*REPORTS} & {*ELSEWHERE}


@pytest.mark.parametrize("report", REPORTS)
def test_an_injection_leaves_the_law_of_its_report(report: str):
    fault, known = parse_fault(report), CATALOGUE[report]
    assert fault.pattern is known.pattern
    assert "some" in known.families or fault.family in known.families
    problem = load_problem("ragged-tiny" if report in ("transformers-34191", "torchtitan-3174") else "moe-tiny")
    ep = 2 if fault.family == "expert" else 1
    site = Site(problem=problem, layout=Layout(dp=4, ep=ep, accum=3), strategy="fsdp2")
    fault.check(site)
    formulas = {formula for law in fault.expected(site) for formula in law.formulas}
    assert not formulas or not known.laws or formulas & set(known.laws)
    assert all(law.reports == (report,) for law in fault.expected(site))


def test_a_fault_of_all_parameters_stays_one():
    assert {parse_fault(report).family == ALL for report in REPORTS if "all" in CATALOGUE[report].families} == {True}
