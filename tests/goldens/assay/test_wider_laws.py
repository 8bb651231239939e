"""Laws that no weights on units can give: a term, the step before, another parameter."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gradassay.goldens.assay.compare import assay_record
from gradassay.goldens.assay.result import Verdict
from gradassay.goldens.header import StageStep
from gradassay.goldens.layout import Layout

LAYOUT = Layout(dp=4, accum=3)
FAMILIES = {"dense": [(24, 16), (48,)], "expert": [(40, 36)] * 4, "router": [(12, 32)]}


@pytest.fixture(scope="module", params=["float32", "bfloat16"])
def dtype(request: Any) -> str:
    return str(request.param)


@pytest.mark.parametrize(("factor", "scale"), [(4.0, "dp"), (0.25, "1/dp"), (3.0, "accum"), (0.0, "0"), (1.3, "1.3")])
def test_a_term_at_the_wrong_scale(
    factor: float, scale: str, dtype: str, make_toy: Any, make_golden: Any, make_record: Any
) -> None:
    toy = make_toy(families=FAMILIES, units=12, terms=("main", "aux"))
    golden = make_golden(toy, dtype=dtype)
    (finding,) = assay_record(make_record(toy, layout=LAYOUT, dtype=dtype, terms={"aux": factor}), golden).findings
    assert finding.law.pattern == "term"
    assert finding.law.formula == f"w[aux] = {scale}"
    assert finding.count == 7
    assert assay_record(make_record(toy, layout=LAYOUT, dtype=dtype), golden).verdict is Verdict.AGREE


def test_a_buffer_that_was_not_cleared(dtype: str, make_toy: Any, make_golden: Any, make_record: Any) -> None:
    first, second = make_toy(families=FAMILIES, units=12), make_toy(families=FAMILIES, units=12, seed=9)
    golden = make_golden(first, dtype=dtype)
    golden = replace(golden, bases={1: golden.bases[1], 2: make_golden(second, dtype=dtype).bases[1]})
    record = make_record(first, layout=LAYOUT, dtype=dtype)
    one = record.captures["reduced.1"]
    two = make_record(second, layout=LAYOUT, dtype=dtype, seed=2).captures["reduced.1"]
    stages = (StageStep(stage="reduced", step=1), StageStep(stage="reduced", step=2))
    steps = replace(record, header=replace(record.header, stages=stages))
    clean = replace(steps, captures={"reduced.1": one, "reduced.2": two})
    stale = replace(steps, captures={"reduced.1": one, "reduced.2": replace(two, sketch=two.sketch + one.sketch)})
    assert assay_record(clean, golden).verdict is Verdict.AGREE
    (finding,) = assay_record(stale, golden).findings
    assert finding.law.pattern == "stale"
    assert finding.law.formula == "g = g[step] + g[step-1]"
    assert finding.count == 7


def test_experts_in_the_wrong_order(dtype: str, make_toy: Any, make_golden: Any, make_record: Any) -> None:
    toy = make_toy(families=FAMILIES, units=12)
    record = make_record(toy, layout=LAYOUT, dtype=dtype)
    capture = record.captures["reduced.1"]
    order = np.arange(len(toy.parameters))
    order[[2, 3, 4]] = [3, 4, 2]
    swapped = replace(record, captures={"reduced.1": replace(capture, sketch=capture.sketch[order])})
    (finding,) = assay_record(swapped, make_golden(toy, dtype=dtype)).findings
    assert finding.law.pattern == "permuted"
    assert set(finding.parameters) == {"expert.0.weight", "expert.1.weight", "expert.2.weight"}
    assert "expert.0.weight <- expert.1.weight" in finding.law.formula


def test_rounding_of_another_class_is_no_factor(make_toy: Any, make_golden: Any, make_record: Any) -> None:
    toy = make_toy(families=FAMILIES, units=12)
    record = make_record(toy, layout=LAYOUT, noise=2.0**-9)
    findings = assay_record(record, make_golden(toy)).findings
    assert {finding.law.pattern for finding in findings} == {"unexplained"}
    assert all("precision class" in finding.law.formula for finding in findings)
    assert all("pytorch-190627" in finding.known_faults for finding in findings)


def test_noise_is_no_law(make_toy: Any, make_golden: Any, make_record: Any) -> None:
    toy = make_toy(families=FAMILIES, units=12)
    record = make_record(toy, layout=LAYOUT)
    capture = record.captures["reduced.1"]
    sketch = capture.sketch.copy()
    sketch[2] = np.random.default_rng(5).standard_normal(1024) * np.abs(sketch[2]).mean()
    noisy = replace(record, captures={"reduced.1": replace(capture, sketch=sketch)})
    (finding,) = assay_record(noisy, make_golden(toy)).findings
    assert finding.parameters == ("expert.0.weight",)
    assert finding.law.pattern == "unexplained"
    assert finding.residual is not None
    assert finding.residual > 0.5
