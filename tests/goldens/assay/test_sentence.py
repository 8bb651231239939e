"""Findings as one sentence."""

from __future__ import annotations

import pytest

from gradassay.goldens.assay.result import Law, Pattern
from gradassay.goldens.assay.sentence import finding_sentence


@pytest.mark.parametrize(
    ("law", "said"),
    [
        (Law(pattern=Pattern.UNIFORM, formula="w[r,m] = ep", scale="ep", value=2.0), "too large by a factor of ep = 2"),
        (
            Law(pattern=Pattern.UNIFORM, formula="w[r,m] = 1/dp", scale="1/dp", value=0.25),
            "too small by a factor of dp = 4",
        ),
        (Law(pattern=Pattern.UNIFORM, formula="w[r,m] = 1.01", scale="1.01", value=1.01), "by a factor of 1.01,"),
        (Law(pattern=Pattern.GEOMETRIC, formula="w[r,m] = dp**(m-M+2)"), "micro-batches geometrically: w[r,m] = dp"),
        (Law(pattern=Pattern.GEOMETRIC, formula="w[r,m] = pp**(stage-pp+1)"), "from pipeline stage to pipeline stage"),
        (Law(pattern=Pattern.ZERO, formula="w[r,m] = 0"), "parameters are zero"),
    ],
)
def test_sentence_says_how(law: Law, said: str) -> None:
    assert said in finding_sentence(("expert", "dense"), 3, 4, law, total=9)


def test_sentence_says_who() -> None:
    law = Law(pattern=Pattern.ZERO, formula="w[r,m] = 0")
    assert finding_sentence(("expert", "dense"), 3, 4, law, total=9).startswith("3 of 4 expert and dense parameters")
    assert finding_sentence(("expert", "dense"), 9, 9, law, total=9).startswith("all 9 parameters")
