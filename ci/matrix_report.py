"""Runs a matrix of references against their goldens and writes the table of docs/matrix-results.md.

1. python ci/matrix_report.py
2. python ci/matrix_report.py --matrix my.toml --table my.md --folder records
Exit code 0 where every cell agrees with enough power, else 1.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import inf
from pathlib import Path

from gradassay.goldens.assay.compare import assay_record
from gradassay.goldens.assay.result import Assay, Verdict
from gradassay.goldens.record import read_record
from gradassay.harness.build import build_golden
from gradassay.harness.cell import Cell
from gradassay.harness.launch import Outcome, Pool, run_cells
from gradassay.harness.matrix import golden_matrix, read_matrix
from gradassay.harness.progress import Advance

ROOT = Path(__file__).parent.parent
POWER: Mapping[str, float] = {"float32": 1.00001, "bfloat16": 1.01}
"""The largest power that a row may have."""

_HEAD = """# What `make matrix` came to

Every cell of `{matrix}` was run by gradassay's own strategies, over gloo on CPUs, and assayed against the golden of
its problem and dtype. A golden's noise floor comes from cells of its own (`gradassay golden build`), of which some are
cells of the matrix too. Residual / tolerance is the largest of all parameters of all cells in the row; power the
smallest scale error that every one of them would have shown in every family. Written by `make matrix`{seconds}.

| problem | strategy | dtype | cells | agree | worst residual / tolerance | power | seconds |
| --- | --- | --- | ---: | ---: | ---: | ---: | ---: |
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What one cell came to: an assay, or the reason why there is none. seconds: of its run."""

    cell: Cell
    seconds: float
    assay: Assay | None = None
    reason: str = ""

    @property
    def agrees(self) -> bool:
        """Whether the verdict is agree, with the power that is asked for."""
        return self.assay is not None and self.assay.verdict is Verdict.AGREE and self.power <= POWER[self.cell.dtype]

    @property
    def power(self) -> float:
        """Of the weakest family."""
        return max(self.assay.power.values(), default=inf) if self.assay is not None else inf

    @property
    def worst(self) -> float:
        """Largest residual / tolerance of all parameters."""
        found = self.assay.parameters if self.assay is not None else ()
        return max((p.residual / p.tolerance for p in found if p.residual is not None and p.tolerance), default=inf)


class Lines:
    """Progress as a line every few cells, for logs."""

    def stage(self, title: str, total: int) -> _Stage:
        """A stage that prints to stderr."""
        return _Stage(title, total)

    def say(self, text: str) -> None:
        """Prints the line to stderr."""
        print(text, file=sys.stderr)


class _Stage:
    def __init__(self, title: str, total: int) -> None:
        self._title, self._total, self._done = title, total, 0

    def __enter__(self) -> Advance:
        return self._advance

    def __exit__(self, *_: object) -> None:
        return

    def _advance(self, label: str, *, ok: bool = True) -> None:
        self._done += 1
        if not ok or self._done % 20 == 0 or self._done == self._total:
            print(f"{self._title}: {self._done}/{self._total} {label}{'' if ok else ' FAILED'}", file=sys.stderr)


def run(cells: Sequence[Cell], folder: Path, pool: Pool) -> list[Result]:
    """The result of every cell; goldens are built first, one a problem and dtype."""
    results: list[Result] = []
    for (problem, dtype), group in groupby(sorted(cells, key=_golden_of), key=_golden_of):
        references = golden_matrix(problem, dtype).cells
        golden = build_golden(problem, dtype, references, pool=pool, folder=folder / "references", progress=Lines())
        outcomes = run_cells(list(group), folder, pool, progress=Lines(), title=f"{problem}.{dtype}")
        for outcome in outcomes:
            assay = assay_record(read_record(outcome.path), golden) if outcome.path is not None else None
            results.append(Result(cell=outcome.cell, seconds=outcome.seconds, assay=assay, reason=_reason(outcome)))
    return results


def _golden_of(cell: Cell) -> tuple[str, str]:
    return cell.problem, cell.dtype


def _reason(outcome: Outcome) -> str:
    return f"rank {outcome.failure.rank}: {outcome.failure.reason}" if outcome.failure is not None else ""


def table(results: Sequence[Result], *, matrix: str, seconds: str = "") -> str:
    """The page: a row for every problem, strategy and dtype, then every cell that does not agree."""

    def row_of(result: Result) -> tuple[str, str, str]:
        return result.cell.problem, result.cell.strategy, result.cell.dtype

    lines = []
    for (problem, strategy, dtype), group in groupby(sorted(results, key=row_of), key=row_of):
        row = list(group)
        lines.append(
            f"| {problem} | {strategy} | {dtype} | {len(row)} | {sum(result.agrees for result in row)} | "
            f"{max(result.worst for result in row):.2f} | {max(result.power for result in row):.9g} | "
            f"{sum(result.seconds for result in row):.0f} |"
        )
    agreeing = sum(result.agrees for result in results)
    lines += ["", f"{agreeing} of {len(results)} cells agree."]
    lines += [f"- {result.cell}: {_complaint(result)}" for result in results if not result.agrees]
    return _HEAD.format(matrix=matrix, seconds=seconds) + "\n".join(lines) + "\n"


def _complaint(result: Result) -> str:
    if result.assay is None:
        return result.reason
    if result.assay.verdict is Verdict.AGREE:
        return f"agrees, but its power is {result.power:.9g}; at most {POWER[result.cell.dtype]} is asked for"
    return result.assay.sentence


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the matrix and writes the table; 0 where everything agrees."""
    parser = argparse.ArgumentParser(description="run a matrix of references against their goldens")
    parser.add_argument("--matrix", type=Path, default=ROOT / "ci/matrix/reference.toml")
    parser.add_argument("--table", type=Path, default=ROOT / "docs/matrix-results.md")
    parser.add_argument("--folder", type=Path, help="keep the records here")
    given = parser.parse_args(arguments)
    began = time.monotonic()
    matrix = read_matrix(given.matrix)
    with tempfile.TemporaryDirectory(prefix="gradassay-matrix-") as temporary, Pool() as pool:
        results = run(matrix.cells, given.folder or Path(temporary), pool)
    name = given.matrix.resolve()
    name = name.relative_to(ROOT) if name.is_relative_to(ROOT) else given.matrix
    text = table(results, matrix=str(name), seconds=f" in {time.monotonic() - began:.0f} s")
    given.table.write_text(text)
    print(text.partition("\n| problem")[2].partition("\n\n")[2], end="")
    return 0 if all(result.agrees for result in results) else 1


if __name__ == "__main__":
    raise SystemExit(main())
