"""What diverges in a job, said once for all cells that the same law holds in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gradassay.forges.outcome import CellLine, CiResult
from gradassay.goldens.errors import Exit
from gradassay.goldens.faults import Fault, load_catalogue


@dataclass(frozen=True, slots=True, kw_only=True)
class Remark:
    """One law. cells: where it holds; parameters: which follow it, in any of them; faults: public ones that look like it."""

    sentence: str
    formula: str
    cells: tuple[CellLine, ...]
    parameters: tuple[str, ...]
    faults: tuple[Fault, ...]


def diverging(result: CiResult) -> tuple[CellLine, ...]:
    """The cells that diverge and do not pass."""
    return tuple(line for line in result.lines if line.exit == Exit.DIVERGE)


def unjudged(result: CiResult) -> tuple[CellLine, ...]:
    """The cells that neither pass nor diverge: no golden, nothing recorded, no answer, too little power."""
    return tuple(line for line in result.lines if line.exit not in (Exit.AGREE, Exit.DIVERGE))


def failures(result: CiResult) -> tuple[tuple[CellLine, ...], ...]:
    """The cells that neither pass nor diverge, those together that fail for the same reason."""
    found: dict[tuple[str, str, str], list[CellLine]] = {}
    for line in unjudged(result):
        found.setdefault((line.error or line.sentence, line.hint, line.verdict), []).append(line)
    return tuple(map(tuple, found.values()))


def remarks(result: CiResult) -> tuple[Remark, ...]:
    """The laws that hold in cells that diverge, that of most cells first."""
    catalogue = {fault.id: fault for fault in load_catalogue()}
    found: dict[tuple[str, str], list[tuple[CellLine, Mapping[str, Any]]]] = {}
    for line in diverging(result):
        for finding in _findings(line):
            key = (", ".join(finding["families"]), finding["law"]["formula"])
            found.setdefault(key, []).append((line, finding))
    made = [_remark(formula, held, catalogue) for (_, formula), held in found.items()]
    return tuple(sorted(made, key=lambda remark: -len(remark.cells)))


def _findings(line: CellLine) -> Iterator[Mapping[str, Any]]:
    """Those of its assay, or without one a finding made of what the line says."""
    findings = (line.assay or {}).get("findings", ())
    yield from findings
    if not findings:
        sentence = line.sentence or "the gradients diverge"
        yield {"families": (), "parameters": (), "law": {"formula": line.law}, "known_faults": (), "sentence": sentence}


def _remark(formula: str, held: list[tuple[CellLine, Mapping[str, Any]]], catalogue: Mapping[str, Fault]) -> Remark:
    findings = [finding for _, finding in held]
    known = dict.fromkeys(name for finding in findings for name in finding["known_faults"])
    return Remark(
        sentence=str(findings[0].get("sentence") or f"{findings[0]['families']} parameters diverge"),
        formula=formula,
        cells=tuple({line.cell: line for line, _ in held}.values()),
        parameters=tuple(dict.fromkeys(name for finding in findings for name in finding["parameters"])),
        faults=tuple(catalogue[name] for name in known if name in catalogue),
    )
