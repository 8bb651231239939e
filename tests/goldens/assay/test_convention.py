"""Declared conventions: formulas that are read, and everything else that is refused."""

from __future__ import annotations

from typing import Any

import pytest

from gradassay.goldens.assay.convention import declared, declared_scales, evaluate
from gradassay.goldens.assay.scale import sizes
from gradassay.goldens.errors import UsageError
from gradassay.goldens.header import DtypeProfile, Framework, Parameter, Problem, RecordHeader, StageStep
from gradassay.goldens.layout import Layout

VALUES = sizes(Layout(dp=8, ep=4, accum=3))


@pytest.mark.parametrize(
    ("formula", "number"),
    [("1/ep", 0.25), ("dp*accum", 24), ("ep**2", 16), ("dp/(ep*2)", 1), ("2**-16", 2.0**-16), ("-1", -1), ("edp", 2)],
)
def test_formulas(formula: str, number: float) -> None:
    assert evaluate(formula, VALUES) == number


@pytest.mark.parametrize(
    "formula",
    ["", "sum", "ep+1", "ep-1", "ep()", "ep.real", "__import__('os')", "True", "'ep'", "1/0", "0**-1", "ep ep", "[1]",
     "dp**99999999", "9**9**9**9", "(-8)**(1/3)", "lambda: 1", "1j", "ep\0", "(" * 300 + "1" + ")" * 300, "9" * 5000],
)  # fmt: skip
def test_anything_else_is_refused(formula: str) -> None:
    with pytest.raises(UsageError):
        evaluate(formula, VALUES)


def test_both_spellings() -> None:
    assert declared({"expert": "1/ep", "dense": 1}) == {"expert": "1/ep", "dense": "1"}
    assert declared({"families": ["expert", "norm"], "scale": "ep"}) == {"expert": "ep", "norm": "ep"}
    assert declared({"families": "expert", "scale": "ep"}) == {"expert": "ep"}
    assert declared({"scale": "1/accum"}) == {"all": "1/accum"}
    assert declared({}) == {}


def header(convention: dict[str, Any]) -> RecordHeader:
    return RecordHeader(
        problem=Problem(name="p", digest="d"),
        framework=Framework(name="f"),
        strategy="s",
        layout=Layout(dp=8, ep=4),
        dtype=DtypeProfile(),
        stages=(StageStep(stage="reduced", step=1),),
        parameters=PARAMETERS,
        convention=convention,
    )


PARAMETERS = tuple(Parameter(name=family, shape=(2,), family=family) for family in ("dense", "expert"))


def test_scales_of_parameters() -> None:
    assert declared_scales(header({}), PARAMETERS) == [1, 1]
    assert declared_scales(header({"expert": "1/ep"}), PARAMETERS) == [1, 0.25]
    assert declared_scales(header({"all": "dp", "expert": "1/ep"}), PARAMETERS) == [8, 0.25]


@pytest.mark.parametrize(
    "convention",
    [{"expert": "0"}, {"expert": "1e999"}, {"expert": ["ep"]}, {"exprt": "ep"}, {"scale": "ep", "families": 7}],
)
def test_what_cannot_be_used_is_refused(convention: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        declared_scales(header(convention), PARAMETERS)
