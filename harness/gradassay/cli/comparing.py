"""From what people write for A and B to assays, and from assays to a report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gradassay.cli.session import Session
from gradassay.cli.stores import resolve_reference
from gradassay.goldens.assay.result import Assay, JointFinding
from gradassay.goldens.comparing import assay_all, record_side
from gradassay.goldens.errors import UsageError
from gradassay.goldens.record import read_record
from gradassay.goldens.reference import Referred
from gradassay.goldens.report import Format


def compare(
    session: Session, a: str, b: Sequence[str], *, stage: str | None = None, step: int | None = None
) -> tuple[Assay, ...]:
    """An assay of every record that the references mean, against the one golden among them or else against record A."""
    left = resolve_reference(session, a)
    right = tuple(found for text in b for found in resolve_reference(session, text))
    base, candidates = choose(left, right)
    for found in sorted({*left, *right} - {base, *candidates}, key=lambda found: found.ref):
        session.say(f"not compared: {found.kind} {found.ref}")
    return assay_all(base, candidates, stage=stage, step=step)


def compare_with_itself(
    session: Session, text: str, *, stage: str | None = None, step: int | None = None
) -> tuple[Assay, ...]:
    """An assay of every record that the reference means against the local gradients that it holds itself."""
    from gradassay.goldens.assay.own import assay_self

    records = [found for found in resolve_reference(session, text) if found.kind == "record"]
    if not records:
        raise UsageError(f"{text} is a golden: an assay needs a record", hint="write gradassay diff GOLDEN RECORD")
    read = [(read_record(found.path), found.ref) for found in records]
    return tuple(assay_self(record, stage=stage, step=step, side=record_side(record, ref)) for record, ref in read)


def choose(left: Sequence[Referred], right: Sequence[Referred]) -> tuple[Referred, tuple[Referred, ...]]:
    """What to compare with, and the records to compare: the golden first, whichever side it stands on.

    Raises UsageError where the references do not single out one golden or one record A.
    """
    records = [found for found in right if found.kind == "record"]
    bases = [found for found in left if found.kind == "golden"] or list(left)
    if not records:
        records, bases = [found for found in left if found.kind == "record"], list(right)
    if not records:
        raise UsageError(
            "two goldens cannot be compared: an assay needs a record",
            hint="gradassay golden show prints what each of them holds",
        )
    if len(bases) != 1:
        raise UsageError(
            f"A may be any of {', '.join(found.ref for found in bases)}",
            hint="name one of these files instead of the folder",
        )
    return bases[0], tuple(records)


def joint_findings(assays: Sequence[Assay]) -> tuple[JointFinding, ...]:
    """The laws that hold in all of several assays; none for one alone."""
    if len(assays) < 2:
        return ()
    from gradassay.goldens.assay.joint import explain_jointly

    return tuple(explain_jointly(assays))


def show_joint(session: Session, findings: Sequence[JointFinding]) -> None:
    """Writes the joint laws alone to stdout."""
    from gradassay.goldens.report.text import terminal

    session.show(terminal((), findings))


def write_report(
    session: Session,
    assays: Sequence[Assay],
    findings: Sequence[JointFinding],
    format: Format = Format.TEXT,
    output: Path | None = None,
) -> None:
    """Writes the report to `output`, whole or not at all, or else to stdout."""
    from gradassay.goldens.report import render_joint

    if output is not None:
        from gradassay.goldens.atomic import write_atomically

        write_atomically(output, render_joint(assays, findings, format).encode())
        session.say("\n".join(assay.sentence for assay in assays))
        session.say(f"report: {output}")
    elif format is Format.TEXT:
        from gradassay.goldens.report.text import terminal

        session.show(terminal(assays, findings))
    else:
        session.emit(render_joint(assays, findings, format))
