"""Record and golden side by side: what was measured, what is true, and the vectors that may explain the difference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from gradassay.goldens.assay.shapes import Setting
from gradassay.goldens.assay.stages import ROUNDOFF, averaging, clip_rounding, due_scales, wrong_clips
from gradassay.goldens.golden import Golden
from gradassay.goldens.header import Parameter, RecordHeader, StageStep
from gradassay.goldens.record import Capture, Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """P parameters that both sides know, in the record's order; arrays are sketches.

    basis: [U, P, 1024], every unit's own gradient. true: [U], by how much each counts in the truth. truth, measured:
    [P, 1024]. copies: [R, P, 1024] of what ranks hold whole, or None. terms: the truth of each term of the objective,
    [P, 1024]. history: [P, 1024], the gradient of the step before, or None. norm2, nonfinite, present: [P], as captured.
    storage: [P], relative rounding along the truth that no floor holds: of the record's sketches, of averages over ranks, of
    clipping, and of parameters behind an update. cancelled: [P], at least
    1, by how much units outweigh the truth that they add up to, infinite where nothing is left of them: rounding happens to
    units, and grows by that in the truth. roundoff: of additions in a coarser type than the golden's, 0 for none. clips: see
    `wrong_clips`.
    """

    setting: Setting
    parameters: tuple[Parameter, ...]
    basis: NDArray[np.float64]
    true: NDArray[np.float64]
    truth: NDArray[np.float64]
    measured: NDArray[np.float64]
    copies: NDArray[np.float64] | None
    terms: Mapping[str, NDArray[np.float64]]
    history: NDArray[np.float64] | None
    norm2: NDArray[np.float64]
    nonfinite: NDArray[np.int64]
    present: NDArray[np.uint8]
    storage: NDArray[np.float64]
    cancelled: NDArray[np.float64]
    roundoff: float = 0.0
    clips: Mapping[str, float] = field(default_factory=dict)

    def units(self, index: int) -> NDArray[np.float64]:
        """[U, 1024]: every unit's gradient of one parameter times its true coefficient."""
        return self.basis[:, index] * self.true[:, None]


def matched(a: Sequence[Parameter], b: Sequence[Parameter]) -> tuple[list[int], list[int]]:
    """Positions in a and in b of the parameters that both name with the same shape, in b's order."""
    known = {(parameter.name, parameter.shape): index for index, parameter in enumerate(a)}
    pairs = [(known[p.name, p.shape], index) for index, p in enumerate(b) if (p.name, p.shape) in known]
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]


def gather(record: Record, golden: Golden, *, stage: str, step: int) -> Evidence:
    """The evidence on every parameter that both sides name with the same shape.

    Families are the golden's; shards and pipeline stages the record's. What the stage differs by from the objective's
    gradient (declared conventions, clipping) is divided out.
    """
    where = StageStep(stage=stage, step=step)
    capture = record.captures[str(where)]
    basis = golden.bases[step]
    layout = record.header.layout
    there, here = matched(golden.header.parameters, record.header.parameters)
    parameters = tuple(
        _merged(golden.header.parameters[a], record.header.parameters[b]) for a, b in zip(there, here, strict=True)
    )
    true = golden.true_coefficients(layout.units)
    units = _rows(basis.sketch[: layout.units], there)
    truth = np.tensordot(true, units, 1)
    due = due_scales(record, where, parameters)[:, None]
    measured = capture.sketch[here]
    copies = capture.rank_sketch[:, here] / due if capture.rank_sketch is not None else None
    tokens = np.array([unit.tokens for unit in golden.header.units[: layout.units]], dtype=np.float64)
    return Evidence(
        setting=Setting(layout=layout, tokens=tokens.reshape(layout.accum, layout.dp).T),
        parameters=parameters,
        basis=units,
        true=true,
        truth=truth,
        measured=measured / due,
        copies=copies,
        terms={
            term: np.tensordot(true, _rows(sketch[: layout.units], there), 1) for term, sketch in basis.terms.items()
        },
        history=_history(record, golden, stage, step, here, there, true),
        norm2=capture.norm2[here],
        nonfinite=capture.nonfinite[here],
        present=capture.present[here],
        storage=stored(measured)
        + averaging(record.header)
        + clip_rounding(record.header, where)
        + rounded(capture, here, due[:, 0], truth),
        cancelled=cancelled(true, units, truth),
        roundoff=extra_roundoff(record.header),
        clips=wrong_clips(record, where),
    )


def extra_roundoff(header: RecordHeader) -> float:
    """The unit roundoff of the type in which a run of bfloat16 gradients says that it accumulates or reduces them, where
    its dtype profile has float32 for that; 0 otherwise.

    Frameworks choose this by default, and it is a matter of precision; of a float32 run it would be a fault.
    """
    if header.dtype.gradient != "bfloat16" or header.dtype.reduce != "float32":
        return 0.0
    types = [str(header.environment.get(key, "")) for key in ("accumulate_dtype", "reduce_dtype")]
    return max((ROUNDOFF[name] for name in types if name in ("bfloat16", "float16")), default=0.0)


def stored(sketches: NDArray[np.float64]) -> float:
    """The relative rounding of sketches that were stored, as far as they show it."""
    with np.errstate(over="ignore"):
        single = np.array_equal(sketches, sketches.astype(np.float32), equal_nan=True)
    return 2.0**-24 if single else 0.0


def rounded(
    capture: Capture, here: list[int], due: NDArray[np.float64], truth: NDArray[np.float64]
) -> NDArray[np.float64]:
    """[P]: the rounding of updated parameters relative to the truth, whose rows these are of the capture's."""
    if capture.rounding is None:
        return np.zeros(len(here))
    size = np.linalg.norm(truth, axis=1) * np.abs(due)
    relative: NDArray[np.float64] = np.divide(capture.rounding[here], size, out=np.zeros(len(here)), where=size > 0)
    return relative


def cancelled(true: NDArray[np.float64], units: NDArray[np.float64], truth: NDArray[np.float64]) -> NDArray[np.float64]:
    """[P]: by how much units outweigh the truth that they add up to; see Evidence."""
    entered = np.sqrt(np.einsum("u,upk,upk->p", true**2, units, units))
    left = np.linalg.norm(truth, axis=1)
    ratio: NDArray[np.float64] = np.divide(entered, left, out=np.where(entered > 0, np.inf, 1.0), where=left > 0)
    return np.maximum(1.0, ratio)


def _rows(sketch: NDArray[np.float64], rows: list[int]) -> NDArray[np.float64]:
    """[U, P, 1024] of the named rows: a view where they are neighbours, as in files of the same parameters they are."""
    if rows and rows == list(range(rows[0], rows[0] + len(rows))):
        return sketch[:, rows[0] : rows[0] + len(rows)]
    return sketch[:, rows]


def _merged(golden: Parameter, record: Parameter) -> Parameter:
    return Parameter(
        name=golden.name, shape=golden.shape, family=golden.family, stage=record.stage, shards=record.shards
    )


def _history(
    record: Record,
    golden: Golden,
    stage: str,
    step: int,
    here: list[int],
    there: list[int],
    true: NDArray[np.float64],
) -> NDArray[np.float64] | None:
    before = record.captures.get(f"{stage}.{step - 1}")
    if before is not None:
        return before.sketch[here]
    if step - 1 in golden.bases:
        history: NDArray[np.float64] = np.tensordot(true, _rows(golden.bases[step - 1].sketch[: len(true)], there), 1)
        return history
    return None
