"""What an assay came to, held against what a report says."""

from __future__ import annotations

from dataclasses import dataclass

from faulty.table import Expected, Report, Trial

from gradassay.goldens.assay.result import Assay, Finding, Verdict
from gradassay.harness.problems import load_problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """detected: the verdict is diverge. named: the report is among the known faults of every finding. laws: those found.
    families: whose. complaints: where it is not what the report says; of a control, that it does not agree.
    """

    detected: bool
    named: bool
    laws: tuple[str, ...]
    families: tuple[str, ...]
    sentence: str
    complaints: tuple[str, ...] = ()

    @property
    def good(self) -> bool:
        """Nothing to complain of."""
        return not self.complaints


def judged(trial: Trial, assay: Assay) -> Judgement:
    """The judgement of the assay of a trial's record."""
    detected = assay.verdict is Verdict.DIVERGE
    if trial.control:
        complaints = () if assay.verdict is Verdict.AGREE else (f"a control must agree: {assay.sentence}",)
    else:
        complaints = tuple(_complaints(trial.report, assay)) if detected else (f"not detected: {assay.sentence}",)
    findings = assay.findings
    return Judgement(
        detected=detected,
        named=bool(findings) and all(trial.report.fault in finding.known_faults for finding in findings),
        laws=tuple(dict.fromkeys(_law(finding) for finding in findings)),
        families=tuple(dict.fromkeys(family for finding in findings for family in finding.families)),
        sentence=assay.sentence,
        complaints=complaints,
    )


def _complaints(report: Report, assay: Assay) -> list[str]:
    expected, findings = report.expected, assay.findings
    found = [text for finding in findings if (text := _complaint(finding, expected))]
    met = {law for law in expected.laws if any(law in texts(finding) for finding in findings)}
    found += [f"no finding has the law {law}" for law in expected.laws if law not in met]
    families = {family for finding in findings for family in finding.families}
    due = set(expected.families)
    if due == {"all"}:
        due = {parameter.family for parameter in load_problem(report.problem).parameters}
    if families != due:
        found.append(f"diverging families are {', '.join(sorted(families))}, not {', '.join(sorted(due))}")
    found += [
        f"{_law(finding)} of {', '.join(finding.families)} looks like {', '.join(finding.known_faults) or 'nothing'}"
        for finding in findings
        if (report.fault in finding.known_faults) is not report.named
    ]
    return found


def _complaint(finding: Finding, expected: Expected) -> str:
    what = f"{_law(finding)} of {finding.count} parameters, {finding.parameters[0]} first"
    if finding.law.pattern is not expected.pattern:
        return f"{what}: expected {expected.pattern}"
    if expected.laws and not texts(finding) & set(expected.laws):
        return f"{what}: expected {' or '.join(expected.laws)}, ties {', '.join(finding.law.ties) or 'none'}"
    return ""


def texts(finding: Finding) -> set[str]:
    """Right-hand sides of the law and of its ties, which wider laws name by their scale alone."""
    law = finding.law
    text = law.formula.partition(" = ")[2] or law.formula
    found = {text, *law.ties}
    if law.scale:
        found |= {text.replace(law.scale, tie, 1) for tie in law.ties}
    return found


def _law(finding: Finding) -> str:
    return f"{finding.law.pattern}: {finding.law.formula}"
