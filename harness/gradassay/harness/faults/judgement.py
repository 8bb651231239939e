"""Whether an assay saw an injected fault, and called it by its name."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gradassay.goldens.assay.result import Assay, Finding, Pattern, Verdict
from gradassay.goldens.golden import Golden
from gradassay.harness.faults.fault import Expected, InjectableFault
from gradassay.harness.faults.site import Site

_WEIGHT_ERRORS = 10.0
_LEAST_WEIGHT_ERROR = 1e-4
# A change of so many tolerances must be found; a smaller one, down to one tolerance, may be.
_CLEAR = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """detected: the verdict is diverge. named: pattern, formula, weights and parameters are those injected, and nothing
    else is found. laws: the formulas found, those of most parameters first. complaints: what keeps it from being named.
    """

    detected: bool
    named: bool
    laws: tuple[str, ...]
    complaints: tuple[str, ...] = ()


def judge(fault: InjectableFault, assay: Assay, golden: Golden, site: Site) -> Judgement:
    """The judgement of the assay of a record, made with this fault at this site, against a golden."""
    expected = fault.expected(site)
    effects = fault.effects(site, golden.bases[1])
    complaints = [text for finding in assay.findings if (text := _complaint(finding, expected))]
    found = {name for finding in assay.findings for name in finding.parameters}
    seen = {p.name: _CLEAR * p.tolerance for p in assay.parameters if p.tolerance is not None}
    if missed := sorted(name for name, size in effects.items() if size > seen.get(name, 0.0) and name not in found):
        complaints.append(f"{len(missed)} parameters changed but not found: {', '.join(missed[:3])}")
    if wronged := sorted(found - effects.keys()):
        complaints.append(f"{len(wronged)} parameters found but not changed: {', '.join(wronged[:3])}")
    detected = assay.verdict is Verdict.DIVERGE
    return Judgement(
        detected=detected,
        named=detected and not complaints,
        laws=tuple(dict.fromkeys(f"{finding.law.pattern}: {finding.law.formula}" for finding in assay.findings)),
        complaints=tuple(complaints),
    )


def _complaint(finding: Finding, expected: tuple[Expected, ...]) -> str:
    """Why a finding is not what was expected of its parameters, or ""."""
    own = next((law for law in expected if law.parameters >= set(finding.parameters)), None)
    what = f"{finding.law.pattern} ({finding.law.formula}) of {finding.count} parameters, {finding.parameters[0]} first"
    if own is None:
        return f"{what}: no one law was injected into all of them"
    # Where two laws give the same numbers in this layout, the report says so, and either may come first.
    if finding.law.pattern is not own.pattern and not set(finding.law.ties) & set(own.formulas):
        return f"{what}: expected {own.pattern}"
    if own.formulas and not _texts(finding) & set(own.formulas):
        return f"{what}: expected {' or '.join(own.formulas)}, ties {', '.join(finding.law.ties) or 'none'}"
    if missing := set(own.reports) - set(finding.known_faults):
        return f"{what}: expected to look like {', '.join(missing)}, not {', '.join(finding.known_faults) or 'nothing'}"
    return _weights(finding, own, what)


def _texts(finding: Finding) -> set[str]:
    """The law's right-hand side and those of its ties, which wider laws name by their scale alone."""
    law = finding.law
    text = law.formula.partition(" = ")[2] or law.formula
    texts = {text, *law.ties}
    if law.scale:
        texts |= {text.replace(law.scale, tie, 1) for tie in law.ties}
    return texts


def _weights(finding: Finding, own: Expected, what: str) -> str:
    if own.weights is None or finding.law.pattern is Pattern.ZERO:
        return ""
    if finding.weights is None:
        return f"{what}: no weights"
    found = np.array([[np.nan if one is None else one for one in row] for row in finding.weights])
    largest = np.abs(own.weights).max()
    allowed = max(_WEIGHT_ERRORS * (finding.weights_stderr or 0.0) / largest, _LEAST_WEIGHT_ERROR)
    away = np.nanmax(np.abs(found - own.weights)) / largest
    return f"{what}: weights are {away:.2g} from those injected" if away > allowed else ""
