"""A cell that does not offer what a fault needs is told what is missing, before any rank starts."""

from __future__ import annotations

import pytest

from gradassay.goldens.errors import UsageError
from gradassay.goldens.layout import Layout
from gradassay.harness.cell import Cell
from gradassay.harness.faults import interference, parse_fault
from gradassay.harness.problems import load_problem
from gradassay.harness.worker import check_cell


@pytest.mark.parametrize(
    ("fault", "problem", "strategy", "layout", "expected"),
    [
        ("uniform:expert:scale=ep", "moe-tiny", "ddp", "dp4.accum3", "needs a layout in which scale is not 1"),
        ("uniform:expert", "dense-tiny", "ddp", "dp4", "no parameters of family 'expert'"),
        ("uniform:exprt", "moe-tiny", "ddp", "dp4", "choose from embedding, norm, dense, bias, router, expert, or all"),
        ("geometric", "moe-tiny", "ddp", "dp4", "needs accum > 1"),
        ("geometric:base=ep", "moe-tiny", "ddp", "dp4.accum3", "base is not 1"),
        ("linear", "moe-tiny", "fsdp2", "dp4", "needs accum > 1"),
        ("last-only", "moe-tiny", "fsdp2", "dp4", "needs accum > 1"),
        ("micro-subset", "moe-tiny", "ddp", "dp4.accum2", "accum > 2"),
        ("micro-subset:micros=0", "moe-tiny", "ddp", "dp4.accum3", "neither the first nor the last alone"),
        ("micro-subset:micros=1+5", "moe-tiny", "ddp", "dp4.accum3", "5 is not below accum = 3"),
        ("rank-subset", "moe-tiny", "single", "accum3", "cannot be injected around single"),
        ("rank-subset:ranks=0+9", "moe-tiny", "ddp", "dp4", "9 is not below dp = 4"),
        ("rank-subset:ranks=0+1", "moe-tiny", "ddp", "dp2", "leave at least one out"),
        ("token-weighting", "moe-tiny", "ddp", "dp4.accum3", "such as ragged-tiny"),
        ("token-weighting:over=micro", "ragged-tiny", "ddp", "dp4", "more than one of what `over` names"),
        ("term", "dense-tiny", "ddp", "dp4", "several loss terms"),
        ("term:term=z", "moe-tiny", "ddp", "dp4", "choose from main, aux"),
        ("unreduced:expert", "moe-tiny", "ddp", "dp4.ep4", "for experts edp > 1"),
        ("unreduced:group=replica", "moe-tiny", "ddp", "dp4", "group=replica needs replicate > 1"),
        ("partly-unreduced", "moe-tiny", "ddp", "dp4", "accum > 1"),
        ("reduced-again:dense", "moe-tiny", "ddp", "dp4", "accum > 1 or twice=true"),
        ("reduced-again", "moe-tiny", "ddp", "dp4.ep2.accum3", "no experts among them"),
        ("own-again", "moe-tiny", "ddp", "dp1.accum3", "dp > 1"),
        ("partly-unreduced:reduced=3", "moe-tiny", "ddp", "dp4.accum3", "3 is not below accum = 3"),
        ("rank-disagreement", "moe-tiny", "zero1", "dp4", "cannot be injected around zero1"),
        ("rank-disagreement:expert", "moe-tiny", "ddp", "dp4.ep4", "for experts edp > 1"),
        ("permuted:tied", "ragged-tiny", "ddp", "dp4", "two parameters of one shape"),
        ("deepspeed-5150:all:x=1", "moe-tiny", "ddp", "dp4", "deepspeed-5150:FAMILY"),
        ("nonsense", "moe-tiny", "ddp", "dp4", "no fault is called 'nonsense'"),
    ],
)
def test_a_cell_is_refused(fault: str, problem: str, strategy: str, layout: str, expected: str):
    with pytest.raises(UsageError) as caught:
        check_cell(Cell(problem=problem, strategy=strategy, layout=Layout.parse(layout), fault=fault))
    assert expected in str(caught.value)


def test_lost_precision_needs_precision():
    cell = Cell(problem="moe-tiny", strategy="ddp", layout=Layout(dp=4), dtype="bfloat16", fault="precision")
    with pytest.raises(UsageError, match="dtype float32"):
        check_cell(cell)


def test_the_same_answer_where_the_interference_is_made():
    with pytest.raises(UsageError, match="changes nothing in layout dp4"):
        interference(parse_fault("linear"), load_problem("moe-tiny"), Layout(dp=4), 0)


def test_what_is_offered_is_accepted():
    check_cell(Cell(problem="moe-tiny", strategy="ddp", layout=Layout(dp=4, ep=2, accum=3), fault="deepspeed-6545"))
