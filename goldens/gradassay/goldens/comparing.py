"""Files of records against a file of a golden or record: assays that say what they compared."""

from __future__ import annotations

from collections.abc import Sequence

from gradassay.goldens.assay.result import Assay, Side
from gradassay.goldens.golden import Golden, read_golden
from gradassay.goldens.record import Record, read_record
from gradassay.goldens.reference import Referred


def assay_all(
    base: Referred, candidates: Sequence[Referred], *, stage: str | None = None, step: int | None = None
) -> tuple[Assay, ...]:
    """The candidates' records against the golden or record `base`, in their order."""
    if base.kind == "golden":
        from gradassay.goldens.assay.compare import assay_record

        golden = read_golden(base.path)
        a = golden_side(golden, base.ref)
        records = [(read_record(found.path), found.ref) for found in candidates]
        return tuple(
            assay_record(record, golden, stage=stage, step=step, a=a, b=record_side(record, ref))
            for record, ref in records
        )
    from gradassay.goldens.assay.records import assay_records

    first = read_record(base.path)
    a = record_side(first, base.ref)
    records = [(read_record(found.path), found.ref) for found in candidates]
    return tuple(
        assay_records(
            first, record, stage=stage or "reduced", step=step or 1, side_a=a, side_b=record_side(record, ref)
        )
        for record, ref in records
    )


def golden_side(golden: Golden, ref: str) -> Side:
    """A golden as one side of a comparison, referred to as `ref`."""
    return Side(kind="golden", ref=ref, title=golden.name, environment=golden.header.environment)


def record_side(record: Record, ref: str) -> Side:
    """A record as one side of a comparison, titled by its strategy, framework and fault."""
    header = record.header
    framework = " ".join(filter(None, (header.framework.name, header.framework.version)))
    fault = header.environment.get("fault")
    title = f"{header.strategy} ({framework})" + (f" with fault {fault}" if fault else "")
    return Side(kind="record", ref=ref, title=title, environment=header.environment)
