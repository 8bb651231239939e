"""The JSON object of `gradassay diff --format json`; its keys are an interface that stays."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from gradassay.goldens.assay.result import EXITS, Assay, Finding, JointFinding, Law, Side, joint_verdict
from gradassay.goldens.errors import UsageError

FORMAT = 1


def to_json(assay: Assay) -> dict[str, Any]:
    """The assay as JSON values. Numbers that are unknown or not finite are null, never bare NaN or Infinity."""
    return {
        "format": FORMAT,
        "verdict": str(assay.verdict),
        "exit": int(assay.exit),
        "sentence": assay.sentence,
        "stage": assay.stage,
        "layout": assay.layout.to_json(),
        "a": _side(assay.a),
        "b": _side(assay.b),
        "power": {family: _number(value) for family, value in sorted(assay.power.items())},
        "findings": [_finding(finding) for finding in assay.findings],
        "parameters": [
            {
                "name": parameter.name,
                "family": parameter.family,
                "verdict": str(parameter.verdict),
                "ratio": _number(parameter.ratio),
                "residual": _number(parameter.residual),
                "tolerance": _number(parameter.tolerance),
                **({"note": parameter.note} if parameter.note else {}),
            }
            for parameter in assay.parameters
        ],
        "unmatched": {"a": list(assay.unmatched_a), "b": list(assay.unmatched_b)},
        "notes": list(assay.notes),
    }


def from_json(document: Mapping[str, Any]) -> Assay:
    """The assay that `to_json` wrote, for another report of it; tokens are not in the document.

    Raises UsageError for a document of another format or shape.
    """
    from pydantic import ValidationError

    if document.get("format") != FORMAT:
        raise UsageError(f"assay: format {document.get('format')!r} is not known", hint=f"this release reads {FORMAT}")
    try:
        unmatched, power = document["unmatched"], document["power"]
        assay: Assay = _reader().validate_python(
            {
                **document,
                "power": {family: math.inf if value is None else value for family, value in power.items()},
                "unmatched_a": unmatched["a"],
                "unmatched_b": unmatched["b"],
            }
        )
    except KeyError as error:
        raise UsageError(f"assay: {error.args[0]} is missing") from error
    except ValidationError as error:
        first = error.errors()[0]
        raise UsageError(f"assay: {'.'.join(map(str, first['loc']))}: {first['msg']}") from error
    return assay


@cache
def _reader() -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(Assay)


def joint_to_json(assays: Sequence[Assay], findings: Sequence[JointFinding]) -> dict[str, Any]:
    """Several assays against one golden, and the laws that hold in all of them."""
    verdict = joint_verdict(assays)
    return {
        "format": FORMAT,
        "verdict": str(verdict),
        "exit": int(EXITS[verdict]),
        "joint": [
            {
                "families": list(finding.families),
                "law": _law(finding.law),
                "cells": list(finding.cells),
                "known_faults": list(finding.known_faults),
                "sentence": finding.sentence,
            }
            for finding in findings
        ],
        "assays": [to_json(assay) for assay in assays],
    }


def dumps(document: dict[str, Any]) -> str:
    """Strictly valid JSON text with a newline at its end."""
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _side(side: Side) -> dict[str, Any]:
    document: dict[str, Any] = {"kind": side.kind, "ref": side.ref}
    if side.title:
        document["title"] = side.title
    if side.environment:
        document["environment"] = _clean(dict(side.environment))
    return document


def _law(law: Law) -> dict[str, Any]:
    return {
        "pattern": str(law.pattern),
        "scale": law.scale,
        "value": _number(law.value),
        "formula": law.formula,
        "ties": list(law.ties),
        "separated_by": law.separated_by,
        "confidence": _number(law.confidence),
    }


def _finding(finding: Finding) -> dict[str, Any]:
    document: dict[str, Any] = {
        "families": list(finding.families),
        "parameters": list(finding.parameters),
        "count": finding.count,
        "of": finding.of,
        "law": _law(finding.law),
        "weights": None if finding.weights is None else _rows(finding.weights),
        "weights_stderr": _number(finding.weights_stderr),
        "residual": _number(finding.residual),
        "segments": None if finding.segments is None else [_number(value) for value in finding.segments],
        "known_faults": list(finding.known_faults),
        "sentence": finding.sentence,
    }
    if finding.owners is not None:
        document["owners"] = [{"rank": owner.rank, "weights": _rows(owner.weights)} for owner in finding.owners]
    return document


def _rows(weights: Iterable[Iterable[float | None]]) -> list[list[float | None]]:
    return [[_number(value) for value in row] for row in weights]


def _number(value: float | None) -> float | None:
    return float(value) if value is not None and math.isfinite(value) else None


def _clean(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _clean(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_clean(item) for item in value]
    if isinstance(value, float):
        return _number(value)
    return value if value is None or isinstance(value, (str, int, bool)) else str(value)
