"""When a golden is refused: it must not be widened by a wrong reference, nor be too weak to judge by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from gradassay.goldens.assay.compare import assay_record
from gradassay.goldens.assay.noise import LEAST_POWER
from gradassay.goldens.assay.result import Verdict
from gradassay.goldens.errors import GoldenRefused
from gradassay.goldens.golden import Basis, Golden
from gradassay.goldens.header import Controls, GoldenHeader, Parameter
from gradassay.goldens.record import Record
from gradassay.harness.build.noise import STAGE, Distances, noise_floors

LARGEST_ERROR: Mapping[str, float] = {"float64": 1e-12, "float32": 1e-5, "bfloat16": 5e-2}
"""By parameter dtype: no honest run of a step this small is farther from the truth; about five times and more beyond
what the reference strategies show on the problems of the package."""

LARGEST_CONDITION = 100.0
"""Of a family's normalised unit gradients, stacked; those of the package's problems are below 6."""

LARGEST_EXCESS = 3.0
"""How many times worse than all others one reference may round; of those of the package none reaches 2."""

_SHOWN = 4
# Relative errors below this are those of the float64 arithmetic that measures them.
_GRAIN = 1e-15

_WRONG = "this reference is wrong: leave it out, or assay it against a golden built without it"


def check_reference(name: str, record: Record, header: GoldenHeader) -> None:
    """Refuses a record of another problem, dtype profile or set of parameters, or one without reduced gradients."""
    own = record.header
    ours = {(parameter.name, parameter.shape) for parameter in header.parameters}
    theirs = {(parameter.name, parameter.shape) for parameter in own.parameters}
    for what, found, expected in (
        ("problem", own.problem, header.problem),
        ("dtype profile", own.dtype, header.dtype),
        ("parameters", sorted(theirs - ours)[:3], sorted(ours - theirs)[:3]),
        ("stages", STAGE if STAGE in record.captures else [*record.captures], STAGE),
    ):
        if found != expected:
            raise GoldenRefused(
                f"reference {name} has other {what} than the golden: {found}, not {expected}",
                hint="references are cells of the golden's own problem and dtype",
                reference=name,
            )
    if own.layout.units > len(header.units):
        raise GoldenRefused(
            f"reference {name} has {own.layout.units} units, the golden {len(header.units)}",
            hint="use fewer ranks or micro-batches",
            reference=name,
        )


def check_distances(samples: Mapping[str, Distances], dtype: str) -> None:
    """Refuses where a reference is so far from the truth that it cannot be rounding."""
    limit = LARGEST_ERROR[dtype]
    for name, sample in samples.items():
        if sample.astray:
            raise GoldenRefused(
                f"reference {name}: {sample.astray[0]} has a gradient, but the truth of its units is zero",
                hint=_WRONG,
                reference=name,
                parameter=sample.astray[0],
            )
        worst = sample.worst()
        if not sample.error[worst] <= limit:
            raise GoldenRefused(
                f"reference {name}: {sample.names[worst]} is {sample.error[worst]:.3g} from the float64 truth, relative "
                f"to it; honest {dtype} runs are within {limit:g}",
                hint=_WRONG,
                reference=name,
                parameter=sample.names[worst],
                error=float(sample.error[worst]),
            )


def check_families(header: GoldenHeader) -> None:
    """Refuses where no reference has a gradient in some family, so that its noise is unknown."""
    unmeasured = sorted({parameter.family for parameter in header.parameters} - header.noise.keys())
    if unmeasured:
        raise GoldenRefused(
            f"no reference has a gradient in {', '.join(unmeasured)}, so the noise there is unknown",
            hint="name reference cells whose units reach these families",
        )


def check_basis(basis: Basis, parameters: Sequence[Parameter]) -> None:
    """Refuses where a unit's gradient is not finite, or the units are so alike that weights could not be told apart."""
    for unit, row in np.argwhere(~(np.isfinite(basis.sketch).all(axis=2) & np.isfinite(basis.norm2))).tolist():
        raise GoldenRefused(
            f"the float64 gradient of unit {unit} is not finite in {parameters[row].name}",
            hint="mend the problem's loss",
            unit=unit,
        )
    for family in dict.fromkeys(parameter.family for parameter in parameters):
        condition = condition_number(basis, [index for index, own in enumerate(parameters) if own.family == family])
        if not condition <= LARGEST_CONDITION:
            raise GoldenRefused(
                f"the unit gradients of family {family} have condition number {condition:.3g}; weights can be told apart "
                f"up to {LARGEST_CONDITION:g}",
                hint="give the problem's units data of their own, so that their gradients differ",
                family=family,
                condition=condition,
            )


def condition_number(basis: Basis, rows: Sequence[int]) -> float:
    """Largest over smallest singular value of the units' gradients of these parameters, each scaled to length 1.

    Units without any gradient there are left out, since assays report them as unobserved.
    """
    stacked = basis.sketch[:, list(rows)].reshape(len(basis.sketch), -1)
    lengths = np.linalg.norm(stacked, axis=1)
    seen = lengths > 0
    if not seen.any():
        return float("inf")
    values = np.linalg.svd(stacked[seen] / lengths[seen, None], compute_uv=False)
    return float(values[0] / values[-1]) if values[-1] > 0 else float("inf")


def check_excess(samples: Mapping[str, Distances]) -> None:
    """Refuses where a reference rounds far worse than all others: it would widen the noise floor for everybody."""
    for name, sample in samples.items():
        others = noise_floors([other for key, other in samples.items() if key != name])
        for family, own in noise_floors([sample]).items():
            usual = others.get(family, own)
            for what, value, limit in (
                ("relative error", own.q999, LARGEST_EXCESS * usual.q999),
                # Along the truth alone few samples may happen to round hardly at all: half of them tell the usual length.
                ("scale error", own.scale or 0.0, max(LARGEST_EXCESS * (usual.scale or 0.0), usual.q50)),
            ):
                if value > max(limit, _GRAIN):
                    raise GoldenRefused(
                        f"reference {name}: {what} {value:.3g} in family {family}, where the other references allow for "
                        f"{limit:.3g}",
                        hint=_WRONG,
                        reference=name,
                        family=family,
                        error=value,
                    )


def check_controls(controls: Controls) -> None:
    """Refuses a golden that would let a fault pass."""
    if controls.undetected:
        raise GoldenRefused(
            f"{len(controls.undetected)} of {controls.tried} faults that were put into its references would not be seen: "
            f"{', '.join(controls.undetected[:_SHOWN])}",
            hint="use more tokens a unit, units with data of their own, or a wider dtype",
            undetected=list(controls.undetected),
        )


def check_assays(golden: Golden, records: Mapping[str, Record]) -> None:
    """Refuses where a reference does not agree with the golden, or could not have shown a scale error of 2 %."""
    for name, record in records.items():
        assay = assay_record(record, golden)
        for family, power in assay.power.items():
            if not power <= LEAST_POWER:
                raise GoldenRefused(
                    f"power of family {family} is {power:.4g} (reference {name}): smaller scale errors would go unseen; at "
                    f"most {LEAST_POWER:g} is allowed",
                    hint="use more tokens a unit, a wider dtype, or references that round less",
                    family=family,
                    power=power,
                )
        if assay.verdict is not Verdict.AGREE:
            raise GoldenRefused(
                f"reference {name} does not agree with the golden: {assay.sentence}",
                hint=_WRONG,
                reference=name,
                verdict=assay.verdict.value,
            )
