"""What a CI job came to: one line a cell, and the job as a whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class CellLine:
    """One cell of the matrix and what became of it.

    line: of the matrix file, from 1; None where it is unknown. verdict: of the assay, `skipped`, or `failed` where there
    is none. law: the formula, sentence: the same in words; both empty without a finding. link: where it is reviewed.
    golden: what it was compared with. accepted: it diverges, and passes as a reviewer has accepted that. error, hint: why
    there is no assay. assay: the document of `gradassay diff --format json`.
    """

    cell: str
    line: int | None = None
    verdict: str
    exit: int
    law: str = ""
    sentence: str = ""
    link: str = ""
    golden: str = ""
    accepted: bool = False
    error: str = ""
    hint: str = ""
    assay: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CiResult:
    """A whole job. matrix: path of the matrix file in the repository; skipped: why nothing was run, empty where it was."""

    exit: int
    verdict: str
    matrix: str | None = None
    lines: tuple[CellLine, ...] = ()
    notes: tuple[str, ...] = ()
    skipped: str = ""
