"""Which verdict stands where, and what is counted."""

from __future__ import annotations

from gradassay.api.web.views.marks import legend, mark
from gradassay.api.web.views.matrix import Newest, matrix
from gradassay.goldens.assay.result import Verdict


def newest(strategy: str, layout: str, verdict: str | None, *, runs: int = 1, framework: str = "torch") -> Newest:
    return Newest(
        run=f"{strategy}-{layout}",
        framework=framework,
        framework_version="2.9",
        strategy=strategy,
        layout=layout,
        runs=runs,
        verdict=verdict,
        sentence="" if verdict is None else f"it is {verdict}",
    )


def test_columns_are_layouts_from_few_ranks_to_many():
    cells = [newest("ddp", layout, "agree") for layout in ("dp8", "dp2.tp4", "dp4.accum3", "dp4", "odd", "dp2")]
    assert matrix(cells).layouts == ("dp2", "dp4", "dp4.accum3", "dp2.tp4", "dp8", "odd")


def test_cell_without_a_run_is_empty_and_one_without_an_assay_says_so():
    shown = matrix([newest("ddp", "dp2", "agree"), newest("fsdp2", "dp4", None)])
    assert [row.strategy for row in shown.rows] == ["ddp", "fsdp2"]
    first, second = shown.rows
    assert first.cells[1] is None
    assert second.cells[0] is None
    assert second.cells[1] is not None
    assert second.cells[1].mark.word == "not assayed"
    assert [(mark.word, count) for mark, count in shown.counts] == [("agree", 1), ("not assayed", 1)]
    assert shown.cells == 2


def test_hovering_tells_the_sentence_and_that_there_were_others():
    shown = matrix([newest("zero1", "dp4.ep2", "diverge", runs=3, framework="deepspeed")])
    cell = shown.rows[0].cells[0]
    assert cell is not None
    assert cell.title == "it is diverge · deepspeed 2.9 zero1 dp4.ep2 (3 runs, this is the newest)"
    assert shown.rows[0].frameworks == ("deepspeed",)


def test_every_verdict_has_a_letter_of_its_own():
    marks = [mark(str(verdict)) for verdict in Verdict] + [mark(None)]
    assert len({one.letter for one in marks}) == len(marks) == len(legend())
    assert len({one.style for one in marks}) == len(marks)


def test_no_runs_make_an_empty_matrix():
    assert matrix([]).rows == ()
    assert matrix([]).cells == 0
