"""Where along a step gradients were captured: what can be compared, and what each stage should hold."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gradassay.goldens.assay.convention import declared_scales
from gradassay.goldens.errors import UsageError
from gradassay.goldens.golden import Golden
from gradassay.goldens.header import Parameter, RecordHeader, StageStep
from gradassay.goldens.record import Record

STAGES = ("local", "reduced", "clipped", "update")
"""In the order of a step: every rank's own gradient of every micro-batch; reduced; clipped; what the update took for it."""

ROUNDOFF = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
"""Largest relative error of rounding to a type."""

_LEAST_NORM = 1e-6


def in_order(wheres: Sequence[StageStep]) -> list[StageStep]:
    """Those of a known stage, as a run passes them."""
    known = [where for where in wheres if where.stage in STAGES]
    return sorted(known, key=lambda where: (where.step, STAGES.index(where.stage)))


def obstacle(record: Record, golden: Golden, where: StageStep) -> str:
    """Why what was captured there cannot be compared with the golden, or ""."""
    if where.stage not in STAGES:
        return f"{where}: stage {where.stage} is not known (known: {', '.join(STAGES)})"
    if where.step not in golden.bases:
        return f"{where}: the golden has no basis for step {where.step}"
    second, update, units = golden.header.second, record.header.update, record.header.layout.units
    if where.step > 1 and second is not None and (update, units) != (second.update, second.units):
        return (
            f"{where}: the golden's later steps follow updates with {second.units} units {_said(second.update)}, "
            f"this run's with {units} {_said(update)}"
        )
    return unclear(record, where)


def unclear(record: Record, where: StageStep) -> str:
    """Why it cannot be said what this stage should hold, or ""."""
    update = record.header.update
    if where.stage in ("clipped", "update") and update is None:
        return f"{where}: the record does not say which update was made"
    clips = update is not None and update.max_norm > 0
    if where.stage in ("clipped", "update") and clips and f"reduced.{where.step}" not in record.captures:
        return f"{where}: what clipping should come to follows from reduced.{where.step}, which the record lacks"
    return ""


def _said(update: object) -> str:
    return "that nobody describes" if update is None else f"by {update}"


def due_scales(record: Record, where: StageStep, parameters: Sequence[Parameter]) -> NDArray[np.float64]:
    """[P]: by what a right capture of this stage differs from the objective's gradient: declared conventions and clipping.

    A local gradient is what backward gave: conventions are about what the reduction makes of it.
    """
    if where.stage == "local":
        return np.ones(len(parameters))
    scales = np.array(declared_scales(record.header, parameters))
    return scales if where.stage == "reduced" else scales * clip_coefficient(record, where.step)


def wrong_clips(record: Record, where: StageStep) -> dict[str, float]:
    """By formula, what is left of a gradient against what is due after clipping, where the clip was left out or its quotient
    taken where it is above 1 (DeepSpeed pull request 5150); {} where nothing was clipped.
    """
    update = record.header.update
    if update is None or not update.max_norm or where.stage not in ("clipped", "update"):
        return {}
    norm = float(record.captures[f"reduced.{where.step}"].norm2.sum()) ** 0.5
    return (
        {"norm/max_norm": norm / update.max_norm}
        if norm > update.max_norm
        else {"max_norm/norm": update.max_norm / norm}
    )


def clip_rounding(header: RecordHeader, where: StageStep) -> float:
    """Relative rounding of the coefficient of clipping: of the norm, the quotient and the product, in the gradients' type."""
    if header.update is None or not header.update.max_norm or where.stage not in ("clipped", "update"):
        return 0.0
    return 3 * ROUNDOFF.get(header.dtype.gradient, ROUNDOFF["bfloat16"])


def averaging(header: RecordHeader) -> float:
    """Relative rounding of gradients that are multiplied by 1 / ranks after every micro-batch, as DistributedDataParallel
    does without no_sync(): what was added up before is multiplied again, by ranks * (1 / ranks), which is 1 only where ranks
    are a power of two, as 1 / ranks is rounded to float32 for all gradients but those in float64.
    """
    layout = header.layout
    if layout.dp & (layout.dp - 1) == 0:
        return 0.0
    return layout.accum * ROUNDOFF["float64" if header.dtype.gradient == "float64" else "float32"]


def clip_coefficient(record: Record, step: int) -> float:
    """`min(1, max_norm / (total norm + 1e-6))`, as torch.nn.utils.clip_grad_norm_ has it, with the total norm of the
    record's own reduced gradient; 1 where nothing is clipped.
    """
    header: RecordHeader = record.header
    if header.update is None or not header.update.max_norm:
        return 1.0
    total = float(record.captures[f"reduced.{step}"].norm2.sum())
    if not np.isfinite(total):
        raise UsageError(
            f"reduced.{step}: the total norm is {total}, so nothing can be said of what was clipped",
            hint="compare stage reduced: --stage reduced",
        )
    return float(min(1.0, header.update.max_norm / (total**0.5 + _LEAST_NORM)))
