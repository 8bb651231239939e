"""Results of jobs, with assays as they are really made, and texts that would do harm where they are rendered."""

from __future__ import annotations

from functools import cache
from typing import Any

from builders import make_golden, make_record, make_toy
from gradassay.forges.outcome import CellLine, CiResult
from gradassay.goldens.assay.compare import assay_record
from gradassay.goldens.layout import Layout
from gradassay.goldens.report.json import to_json

HOSTILE = (
    "`code` ``more``",
    "a|b\\|c\\",
    "<script>alert(1)</script><img src=x onerror=y>",
    "@everyone and @our-org/admins, #12 !34 GH-5 ~bug",
    "[click](javascript:alert(1)) ![x](https://evil.example/x.png)",
    "--> <!-- gradassay:stolen -->",
    "line\nbreak\r\n| new | row |\n\n# heading",
    "\x1b[31mred\x1b[0m \u202eright to left",
    "&lt;b&gt; &#64;ada &amp;",
    "**bold** _it_ ~~gone~~ $x$ {{ toc }}",
    "# heading",
    "12. list",
    "- item",
    "日本語🎉é" * 200,
)


@cache
def doubled() -> dict[str, Any]:
    """The assay of a run whose experts are twice too large."""
    toy = make_toy()
    record = make_record(toy, layout=Layout(dp=4, ep=2, accum=3), weights={"expert": 2.0})
    return to_json(assay_record(record, make_golden(toy)))


def agrees(cell: str = "toy/ddp/dp2.accum3", **more: Any) -> CellLine:
    """A cell that agrees."""
    return CellLine(cell=cell, line=3, verdict="agree", exit=0, golden="golden:toy.float32@v1", **more)


def diverges(cell: str = "toy/zero1/dp4.ep2.accum3", *, line: int = 7, **more: Any) -> CellLine:
    """A cell with experts twice too large."""
    assay = doubled()
    named = {
        "law": assay["findings"][0]["law"]["formula"],
        "sentence": assay["sentence"],
        "link": "http://127.0.0.1:1/runs/r1",
        "golden": "golden:toy.float32@v1",
        "assay": assay,
    }
    return CellLine(**{"cell": cell, "line": line, "verdict": "diverge", "exit": 1, **named, **more})


def failed(cell: str = "toy/hsdp/dp4", *, exit: int = 3, **more: Any) -> CellLine:
    """A cell without an assay."""
    named = {"verdict": "no golden", "error": "there is no golden of toy.float32", "hint": "propose one"}
    return CellLine(**{"cell": cell, "line": 9, "exit": exit, **named, **more})


def result(*lines: CellLine, exit: int | None = None, **more: Any) -> CiResult:
    """A job with these cells; by default its exit code is that of the gravest."""
    chosen = (
        exit
        if exit is not None
        else next((code for code in (1, 3, 4, 5, 6, 11) if code in {line.exit for line in lines}), 0)
    )
    verdict = "diverge" if chosen == 1 else "agree" if chosen == 0 else "failed"
    return CiResult(**{"exit": chosen, "verdict": verdict, "matrix": "matrix.toml", "lines": lines, **more})
