"""How verdicts look: a letter and a word each, so that no meaning hangs on colour alone."""

from __future__ import annotations

from dataclasses import dataclass

from gradassay.goldens.assay.result import Verdict

UNJUDGED = "not assayed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """One verdict as a cell shows it. style: a class of the style sheet."""

    letter: str
    word: str
    style: str
    meaning: str


_MEANINGS = {
    Verdict.AGREE: ("A", "every parameter is the golden's, within the noise floor"),
    Verdict.DIVERGE: ("D", "parameters differ from the golden by more than the noise floor"),
    Verdict.INCONCLUSIVE: ("I", "too little power, or what would decide was not observed"),
    Verdict.INCOMPLETE: ("M", "ranks or parameters are missing"),
    Verdict.INCOMPARABLE: ("X", "another problem, dtype profile or stage"),
}
_MARKS = {
    str(verdict): Mark(letter=letter, word=str(verdict), style=str(verdict), meaning=meaning)
    for verdict, (letter, meaning) in _MEANINGS.items()
} | {UNJUDGED: Mark(letter="–", word=UNJUDGED, style="unjudged", meaning="no assay yet, or no golden to compare with")}


def mark(verdict: str | None) -> Mark:
    """How the verdict looks; None is that of a run that nobody has compared with a golden."""
    return _MARKS[verdict or UNJUDGED]


def legend() -> tuple[Mark, ...]:
    """Every mark, in reading order."""
    return tuple(_MARKS.values())
