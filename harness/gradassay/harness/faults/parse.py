"""Faults as text: NAME[:FAMILY][:KEY=VALUE,...], or the id of a public report[:FAMILY]."""

from __future__ import annotations

import difflib
from collections.abc import Collection
from dataclasses import replace
from typing import Any

from gradassay.goldens.errors import UsageError
from gradassay.goldens.faults import load_catalogue
from gradassay.harness.faults.fault import ALL, InjectableFault
from gradassay.harness.faults.known import KINDS
from gradassay.harness.faults.reports import ELSEWHERE, REPORTS

_GRAMMAR = "write NAME[:FAMILY][:KEY=VALUE,...], as in uniform:expert:scale=ep"


def parse_fault(text: str) -> InjectableFault:
    """The fault that a cell names, such as `uniform:expert:scale=ep`, `last-only:dense` or `megatron-lm-3023`.

    Raises UsageError with the nearest known name for a name, key or value that there is not.
    """
    name, *rest = text.split(":")
    if name in ELSEWHERE:
        raise UsageError(
            f"fault {name} cannot be injected: {ELSEWHERE[name]}", hint="`gradassay faults list` prints all"
        )
    if name in REPORTS:
        return _reported(text, name, rest)
    if name not in KINDS:
        raise UsageError(f"no fault is called {name!r}", hint=_nearest(name, [*KINDS, *REPORTS]))
    kind = KINDS[name]
    settings = rest.pop() if rest and "=" in rest[-1] else ""
    if len(rest) > 1 or "" in rest:
        raise UsageError(f"cannot read fault {text!r}", hint=_GRAMMAR)
    family = rest[0] if rest else ALL
    if kind.only_all and family != ALL:
        raise UsageError(f"fault {name} cannot be confined to family {family!r}", hint=f"write {name}, or {name}:{ALL}")
    given: dict[str, Any] = dict(_setting(text, kind, part) for part in filter(None, settings.split(",")))
    return kind(family=family, **given)


def _reported(text: str, report: str, rest: list[str]) -> InjectableFault:
    fault = parse_fault(REPORTS[report])
    if not rest:
        return replace(fault, report=report)
    own = next(known for known in load_catalogue() if known.id == report)
    if len(rest) > 1 or not rest[0] or "=" in rest[0]:
        raise UsageError(f"cannot read fault {text!r}", hint=f"write {report}, or {report}:FAMILY")
    if rest[0] != fault.family and "some" not in own.families:
        raise UsageError(
            f"{report} is a fault of {', '.join(own.families)} parameters, not of {rest[0]!r}",
            hint=f"write {report}, or {REPORTS[report].replace(fault.family, rest[0], 1)}",
        )
    return replace(fault, family=rest[0], report=report)


def _setting(text: str, kind: type[InjectableFault], part: str) -> tuple[str, Any]:
    key, equals, value = part.partition("=")
    if not equals or not value:
        raise UsageError(f"cannot read {part!r} in fault {text!r}", hint=_GRAMMAR)
    if key not in kind.settings:
        known = _nearest(key, kind.settings) if kind.settings else f"{kind.name} has no settings"
        raise UsageError(f"fault {kind.name} has no setting {key!r}", hint=known)
    try:
        return key, kind.settings[key](value)
    except UsageError as error:
        raise UsageError(f"fault {text!r}: {key}: {error.message}", hint=error.hint) from error


def _nearest(word: str, known: Collection[str]) -> str:
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(sorted(known))}"
