"""Self-assay: a record's gradients against those that its own ranks had before accumulation and reduction."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gradassay.goldens.assay.compare import assay_evidence, first_seen, without_verdict
from gradassay.goldens.assay.evidence import Evidence, cancelled, rounded, stored
from gradassay.goldens.assay.records import ASSUMED_NOISE
from gradassay.goldens.assay.result import Assay, Side, Verdict
from gradassay.goldens.assay.shapes import Setting
from gradassay.goldens.assay.stages import averaging, clip_rounding, due_scales, in_order, unclear, wrong_clips
from gradassay.goldens.errors import UsageError
from gradassay.goldens.header import Parameter, StageStep
from gradassay.goldens.layout import Layout
from gradassay.goldens.record import Capture, Record

BLIND_SPOTS = (
    "a self-assay checks accumulation, reduction, clipping and updates against the run's own local gradients: a wrong forward "
    "pass, wrong data, or a loss that every rank scales wrongly alike stays unseen, which a golden would show"
)


def assay_self(record: Record, *, stage: str | None = None, step: int | None = None, side: Side | None = None) -> Assay:
    """The assay of a record that holds its own units, at each stage after `local`.

    What is due follows from the layout: the sum of what the backward passes of all micro-batches and ranks gave, divided by
    dp, as a mean over data-parallel ranks has it (an expert's local gradient holds the tokens of its whole ep group already,
    so that it is summed over the ranks that hold the expert and divided by dp as well), times what the record declares.
    Tolerances are assumed for the dtype. Raises UsageError for a record without units.
    """
    side = side or Side(kind="record", ref=record.header.strategy, environment=record.header.environment)
    steps = {where.step for where in record.header.stages if _units(record, where.step) is not None}
    if not steps:
        raise UsageError(
            f"{side.ref} holds no local gradients to compare it with",
            hint="record it with --self-assay or Recorder(..., self_assay=True), or name a golden: diff GOLDEN RECORD",
        )
    asked = [
        where
        for where in record.header.stages
        if where.stage != "local"
        and where.step in steps
        and stage in (None, where.stage)
        and step in (None, where.step)
    ]
    wheres = in_order([where for where in asked if not unclear(record, where)])
    a = Side(kind="units", ref=side.ref, title="its own local gradients", environment=side.environment)
    if not wheres:
        reason = "; ".join(unclear(record, where) for where in asked) or (
            f"the record holds {', '.join(map(str, record.header.stages))}, but nothing of what was asked for"
        )
        return without_verdict(Verdict.INCOMPARABLE, reason, record.header.layout, stage or "reduced", a, side)
    return first_seen([_assay(record, where, a, side) for where in wheres], notes=(BLIND_SPOTS,))


def _units(record: Record, step: int) -> Capture | None:
    local = record.captures.get(f"local.{step}")
    return local if local is not None and local.units is not None else None


def _assay(record: Record, where: StageStep, a: Side, b: Side) -> Assay:
    evidence = _gather(record, where)
    dtype = record.header.dtype.gradient
    assumed = ASSUMED_NOISE.get(dtype, ASSUMED_NOISE["bfloat16"])
    return assay_evidence(
        evidence,
        {parameter.family: assumed for parameter in evidence.parameters},
        framework=record.header.framework.name,
        stage=str(where),
        missing=(),
        extra=(),
        a=a,
        b=b,
        notes=(f"tolerances are assumed for {dtype} gradients, not measured", *_grouping(record, where)),
    )


def _grouping(record: Record, where: StageStep) -> tuple[str, ...]:
    local, layout = _units(record, where.step), record.header.layout
    assert local is not None
    assert local.units is not None
    groups = len(local.units) // layout.accum
    if groups == layout.dp:
        return ()
    return (
        f"ranks are seen in {groups} groups of {layout.dp // groups}: weights are those of groups, and copies of single ranks "
        "are not told apart",
    )


def _gather(record: Record, where: StageStep) -> Evidence:
    local, capture, layout = _units(record, where.step), record.captures[str(where)], record.header.layout
    assert local is not None
    assert local.units is not None
    groups = len(local.units) // layout.accum
    parameters = tuple(_folded(parameter, layout.dp // groups) for parameter in record.header.parameters)
    everything = list(range(len(parameters)))
    true = np.full(len(local.units), 1 / layout.dp)
    truth = np.tensordot(true, local.units, 1)
    due = due_scales(record, where, parameters)
    before = record.captures.get(f"{where.stage}.{where.step - 1}")
    return Evidence(
        setting=Setting(
            layout=layout if groups == layout.dp else Layout(dp=groups, accum=layout.accum),
            tokens=np.ones((groups, layout.accum)),
            run=layout,
        ),
        parameters=parameters,
        basis=local.units,
        true=true,
        truth=truth,
        measured=capture.sketch / due[:, None],
        copies=None if capture.rank_sketch is None or groups < layout.dp else capture.rank_sketch / due[:, None],
        terms={},
        history=None if before is None else before.sketch,
        norm2=capture.norm2,
        nonfinite=capture.nonfinite + local.nonfinite,
        present=capture.present,
        storage=stored(capture.sketch)
        + stored(local.units)
        + averaging(record.header)
        + clip_rounding(record.header, where)
        + rounded(capture, everything, due, truth),
        cancelled=cancelled(true, local.units, truth),
        clips=wrong_clips(record, where),
    )


def _folded(parameter: Parameter, size: int) -> Parameter:
    """The parameter with shards by group of `size` neighbouring ranks."""
    if size == 1 or parameter.shards is None:
        return parameter
    return replace(parameter, shards=tuple((rank // size, first, end) for rank, first, end in parameter.shards))
