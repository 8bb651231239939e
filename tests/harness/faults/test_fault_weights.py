"""The formula that a fault promises gives the weights that it injects."""

from __future__ import annotations

import re

import numpy as np
import pytest

from gradassay.goldens.assay.scale import sizes
from gradassay.goldens.layout import Layout
from gradassay.harness.faults import Site, parse_fault
from gradassay.harness.faults.setting import spellings
from gradassay.harness.faults.weighted import WeightedFault
from gradassay.harness.problems import load_problem

LAYOUTS = [Layout(dp=4, ep=2, accum=3), Layout(dp=6, ep=3, accum=4), Layout(dp=3, accum=5), Layout(dp=2, accum=7)]


def evaluated(formula: str, site: Site) -> np.ndarray:
    """[dp, accum]: the numbers of a right-hand side of w[r,m], read by Python itself."""
    text = re.sub(r"\[m = (M-1|0)\]", r"(m == \1)", formula)
    text = re.sub(r"\[(\w) in \{([\d,]+)\}\]", r"(\1 in {\2})", text)
    text = text.replace("n[r,m]", "n[r, m]").replace("n[r]", "n[r].sum()").replace("n[m]", "n[:, m].sum()")
    tokens, layout = site.tokens, site.layout
    total = {"n[r].sum()": layout.dp, "n[:, m].sum()": layout.accum}
    groups = next((count for part, count in total.items() if part in text), layout.units)
    names = sizes(layout) | {"M": layout.accum, "n": tokens, "mean": lambda counts: counts.sum() / groups}
    rows = [[eval(text, {}, names | {"r": r, "m": m}) for m in range(layout.accum)] for r in range(layout.dp)]
    return np.array(rows, dtype=np.float64)


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize(
    "text",
    [
        "uniform",
        "uniform:scale=accum*dp",
        "uniform:scale=2**-16",
        "uniform:scale=1.01",
        "sign",
        "zero",
        "geometric",
        "geometric:scale=1",
        "geometric:scale=accum",
        "geometric:base=2,scale=1/2",
        "geometric:base=1/2,scale=1",
        "geometric:base=1/accum,scale=accum",
        "geometric:base=1/dp,scale=1/dp",
        "linear",
        "linear:rising=true",
        "last-only",
        "last-only:scale=accum",
        "first-only:scale=1/dp",
        "micro-subset",
        "micro-subset:micros=1",
        "rank-subset",
        "rank-subset:ranks=1,scale=dp",
        "token-weighting",
        "token-weighting:over=rank",
        "token-weighting:over=micro",
    ],
)
def test_formulas_are_the_weights(text: str, layout: Layout):
    problem = load_problem("ragged-tiny" if text.startswith("token") else "moe-tiny")
    fault, site = parse_fault(text), Site(problem=problem, layout=layout)
    assert isinstance(fault, WeightedFault)
    fault.check(site)
    formulas = fault.formulas(site)
    assert formulas
    for formula in formulas:
        np.testing.assert_allclose(evaluated(formula, site), fault.weights(site), rtol=1e-12)


@pytest.mark.parametrize(
    ("text", "layout", "expected"),
    [
        ("dp/ep", Layout(dp=4, ep=2, accum=3), "edp"),
        ("dp/ep", Layout(dp=4, accum=3), "dp"),
        ("accum*dp", Layout(dp=4, ep=2, accum=3), "dp*accum"),
        ("0.25", Layout(dp=8, ep=2, accum=3), "1/4"),
        ("2**-16", Layout(dp=4), "2**-16"),
        ("1.01", Layout(dp=4), "1.01"),
    ],
)
def test_a_formula_is_spelled_as_assays_do(text: str, layout: Layout, expected: str):
    assert expected in spellings(text, layout)


def test_a_formula_is_not_spelled_as_one_of_the_same_number():
    assert spellings("ep", Layout(dp=4, ep=2, accum=2)) == ("ep",)


def test_a_plain_number_is_also_what_has_its_value_here():
    assert {"2", "ep", "accum"} <= set(spellings("2", Layout(dp=8, ep=2, accum=2)))
