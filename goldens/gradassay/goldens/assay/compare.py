"""Record against golden: from files to the one Assay object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from gradassay.goldens.assay.evidence import Evidence, extra_roundoff, gather
from gradassay.goldens.assay.findings import explain
from gradassay.goldens.assay.health import Health, examine
from gradassay.goldens.assay.noise import LEAST_POWER
from gradassay.goldens.assay.result import Assay, Finding, Side, Verdict, joint_verdict
from gradassay.goldens.assay.sentence import verdict_sentence
from gradassay.goldens.assay.stages import in_order, obstacle
from gradassay.goldens.faults import load_catalogue
from gradassay.goldens.golden import Golden
from gradassay.goldens.header import NoiseFloor, StageStep
from gradassay.goldens.layout import Layout
from gradassay.goldens.record import Record


def assay_record(
    record: Record,
    golden: Golden,
    *,
    stage: str | None = None,
    step: int | None = None,
    a: Side | None = None,
    b: Side | None = None,
) -> Assay:
    """The assay of a record against a golden.

    stage, step: one of each, or None for all that both hold. The gravest verdict decides, at the first place of the run
    where it is met: what goes wrong in the backward pass, in the reduction, in clipping or in the update shows from there on.
    a, b: how the two are called in reports.
    """
    a = a or Side(kind="golden", ref=golden.name, environment=golden.header.environment)
    b = b or Side(kind="record", ref=record.header.strategy, environment=record.header.environment)
    reason = _incomparable(record, golden)
    held = [w for w in record.header.stages if stage in (None, w.stage) and step in (None, w.step)]
    wheres = [] if reason else in_order([where for where in held if not obstacle(record, golden, where)])
    if not wheres:
        reason = reason or _nothing_there(record, golden, held, stage, step)
        return without_verdict(Verdict.INCOMPARABLE, reason, record.header.layout, stage or "reduced", a, b)
    assays = [_assay_step(record, golden, where, a, b) for where in wheres]
    left_out = tuple(obstacle(record, golden, where) for where in held if where not in wheres)
    return first_seen(assays, notes=tuple(f"not compared: {reason}" for reason in left_out))


def first_seen(assays: Sequence[Assay], *, notes: tuple[str, ...] = ()) -> Assay:
    """Of the assays of one run in its order, the first with the gravest verdict, or where all agree that of the last
    reduced gradient; with the notes, and what came before it.
    """
    verdict = joint_verdict(assays)
    agreed = [assay.stage for assay in assays if assay.verdict is Verdict.AGREE]
    if verdict is Verdict.AGREE:
        chosen = next((assay for assay in reversed(assays) if assay.stage.startswith("reduced")), assays[-1])
        if len(assays) > 1:
            notes += (f"{', '.join(agreed)} agree",)
        return replace(chosen, notes=chosen.notes + notes)
    chosen = next(assay for assay in assays if assay.verdict is verdict)
    before = [assay.stage for assay in assays[: assays.index(chosen)] if assay.verdict is Verdict.AGREE]
    if before:
        notes += (
            f"first seen at stage {chosen.stage}: {', '.join(before)} {'agree' if len(before) > 1 else 'agrees'}",
        )
    elif len(assays) > 1:
        notes += (f"seen from the first stage on that was captured, {chosen.stage}",)
    return replace(chosen, notes=chosen.notes + notes)


def _incomparable(record: Record, golden: Golden) -> str:
    """Why the two cannot be compared at all, or ""."""
    ours, theirs = record.header, golden.header
    if ours.problem != theirs.problem:
        return (
            f"the record is of problem {ours.problem.name} ({ours.problem.digest}), "
            f"the golden of {theirs.problem.name} ({theirs.problem.digest})"
        )
    if ours.dtype != theirs.dtype:
        return f"the record's dtype profile is {_profile(record)}, the golden's {_profile(golden)}"
    if ours.layout.units > len(theirs.units):
        return (
            f"layout {ours.layout} needs {ours.layout.units} units, the golden holds {len(theirs.units)}: "
            "build a golden with more units, or run a smaller layout"
        )
    return ""


def _nothing_there(
    record: Record, golden: Golden, held: Sequence[StageStep], stage: str | None, step: int | None
) -> str:
    """Why nothing of what was asked for can be compared."""
    reasons = [obstacle(record, golden, where) for where in held]
    if reasons:
        return "; ".join(reasons)
    asked = " ".join(filter(None, [f"stage {stage}" if stage else "", f"step {step}" if step else ""]))
    stages = ", ".join(map(str, record.header.stages))
    return f"the record holds {stages}, but nothing at {asked}"


def _profile(side: Record | Golden) -> str:
    dtype = side.header.dtype
    return f"{dtype.parameter}/{dtype.gradient}/{dtype.reduce} (parameter/gradient/reduce)"


def without_verdict(verdict: Verdict, reason: str, layout: Layout, stage: str, a: Side, b: Side) -> Assay:
    """The assay of two that cannot be compared at all."""
    return Assay(
        verdict=verdict, a=a, b=b, stage=stage, layout=layout, sentence=f"{verdict}: {reason}", notes=(reason,)
    )


def _assay_step(record: Record, golden: Golden, where: StageStep, a: Side, b: Side) -> Assay:
    evidence = gather(record, golden, stage=where.stage, step=where.step)
    matched = {parameter.name for parameter in evidence.parameters}
    second = golden.header.second
    return assay_evidence(
        evidence,
        second.noise if second is not None and where.step > 1 else golden.header.noise,
        framework=record.header.framework.name,
        stage=str(where),
        missing=tuple(p.name for p in golden.header.parameters if p.name not in matched),
        extra=tuple(p.name for p in record.header.parameters if p.name not in matched),
        a=a,
        b=b,
        notes=_notes(record),
    )


def assay_evidence(
    evidence: Evidence,
    noise: Mapping[str, NoiseFloor],
    *,
    framework: str,
    stage: str,
    missing: tuple[str, ...],
    extra: tuple[str, ...],
    a: Side,
    b: Side,
    notes: tuple[str, ...],
) -> Assay:
    """The assay of gathered evidence. missing, extra: parameters that only a, or only b, names with that shape."""
    layout = evidence.setting.run or evidence.setting.layout
    if not evidence.parameters:
        reason = "no parameter has the same name and shape on both sides"
        return without_verdict(Verdict.INCOMPARABLE, reason, layout, stage, a, b)
    health = examine(evidence, noise)
    findings = explain(evidence, health, framework=framework, complete=not missing and not extra)
    verdict, reason = _verdict(evidence, health, findings, missing, extra)
    if findings:
        notes += _environment_notes(a, b)
    return Assay(
        verdict=verdict,
        a=a,
        b=b,
        stage=stage,
        layout=layout,
        sentence=verdict_sentence(
            verdict,
            findings,
            layout,
            against=a.title if a.kind == "units" else f"the {a.kind}",
            compared=len(evidence.parameters),
            reason=reason,
            alike=_title(findings),
            where="" if stage == "reduced.1" else f" at {stage}",
        ),
        tokens=tuple(map(tuple, evidence.setting.tokens.tolist())),
        power=health.power,
        findings=findings,
        parameters=health.parameters,
        unmatched_a=missing,
        unmatched_b=extra,
        notes=((reason,) if reason else ()) + notes,
    )


def _title(findings: Sequence[Finding]) -> str:
    known = [fault for finding in findings[:1] for fault in finding.known_faults]
    reports = {fault.id: fault.report for fault in load_catalogue()}
    return reports[known[0]] if known else ""


def _verdict(
    evidence: Evidence,
    health: Health,
    findings: Sequence[Finding],
    missing: Sequence[str],
    extra: Sequence[str],
) -> tuple[Verdict, str]:
    """The run's verdict and, unless it agrees or diverges, the reason. Nothing unmatched or unseen is ever a pass."""
    if findings:
        return Verdict.DIVERGE, ""
    reshaped = [name for name in extra if name in missing]
    if reshaped:
        return Verdict.INCOMPARABLE, f"record and golden disagree about the shape of {_some(reshaped)}"
    if extra:
        also = f"; the golden has {_some(missing)} that the record lacks" if missing else ""
        return Verdict.INCOMPARABLE, f"the record has {_some(extra)} that the golden does not know{also}"
    if missing:
        return Verdict.INCOMPLETE, f"the record lacks {_some(missing)} of the golden"
    uncovered = _uncovered(evidence)
    if uncovered:
        return Verdict.INCOMPLETE, f"no rank's shard holds all of {_some(uncovered)}"
    if health.unmeasured:
        return Verdict.INCONCLUSIVE, f"the golden has no noise floor for family {', '.join(health.unmeasured)}"
    weak = {family: power for family, power in health.power.items() if power > LEAST_POWER}
    if weak:
        worst = max(weak, key=weak.__getitem__)
        return Verdict.INCONCLUSIVE, (
            f"too little power: a factor of {weak[worst]:.4g} on {worst} parameters would go unseen (at most {LEAST_POWER})"
        )
    unseen = [p.name for p in health.parameters if p.verdict is Verdict.INCONCLUSIVE]
    if unseen:
        return Verdict.INCONCLUSIVE, (
            f"in layout {evidence.setting.layout} no unit has a gradient, or nothing is left of their sum, "
            f"for {_some(unseen)}: use more units"
        )
    return Verdict.AGREE, ""


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{len(names)} parameter{'s' if len(names) != 1 else ''} ({', '.join(names[:3])}{more})"


def _uncovered(evidence: Evidence) -> list[str]:
    """Parameters whose shards, where they are listed, leave elements out."""
    found = []
    for parameter in evidence.parameters:
        if parameter.shards is None:
            continue
        end = 0
        for _, first, last in sorted(parameter.shards, key=lambda shard: shard[1:]):
            if first > end:
                break
            end = max(end, last)
        if end < parameter.numel:
            found.append(parameter.name)
    return found


def _notes(record: Record) -> tuple[str, ...]:
    notes = []
    if record.header.convention:
        notes.append(f"declared convention, divided out before comparing: {record.header.convention}")
    if extra_roundoff(record.header):
        types = ", ".join(
            f"{key} {record.header.environment[key]}"
            for key in ("accumulate_dtype", "reduce_dtype")
            if key in record.header.environment
        )
        notes.append(f"sums are coarser than the golden's ({types}): tolerances are wider by their rounding")
    return tuple(notes)


def _environment_notes(a: Side, b: Side) -> tuple[str, ...]:
    shared = sorted(a.environment.keys() & b.environment.keys())
    changed = [key for key in shared if a.environment[key] != b.environment[key]]
    if not changed:
        return ()
    return (
        "environment differs: " + ", ".join(f"{key} {a.environment[key]} -> {b.environment[key]}" for key in changed),
    )
