"""From a basis and reference records to a golden, or to the reason why there is none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from gradassay.goldens.errors import UsageError
from gradassay.goldens.golden import Basis, Golden
from gradassay.goldens.header import DtypeProfile, GoldenHeader, Reference, SecondStep, Unit, Update
from gradassay.goldens.header import Problem as ProblemName
from gradassay.goldens.record import Record
from gradassay.harness.build.basis import Following
from gradassay.harness.build.checks import (
    check_assays,
    check_basis,
    check_controls,
    check_distances,
    check_excess,
    check_families,
    check_reference,
)
from gradassay.harness.build.noise import SECOND, distances, noise_floors
from gradassay.harness.controls import control_score
from gradassay.harness.problems.protocol import Problem
from gradassay.harness.progress import Progress, Silent

LEAST_REFERENCES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Referred:
    """A reference record and the digest of its file."""

    record: Record
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Second:
    """The basis of a second step, and the update before it."""

    basis: Basis
    following: Following


def assemble(
    problem: Problem,
    dtype: DtypeProfile,
    basis: Basis,
    references: Mapping[str, Referred],
    *,
    second: Second | None = None,
    progress: Progress | None = None,
) -> Golden:
    """The golden of a problem in a dtype profile; references: records by a name for messages.

    second: the step after an update as well, whose rounding is that of the references that ran it.

    Raises UsageError for fewer than two references, and GoldenRefused, with the values, where a reference is wrong or of
    something else, or the golden would be too weak.
    """
    if len(references) < LEAST_REFERENCES:
        raise UsageError(
            f"{len(references)} reference runs are too few for a noise floor; at least {LEAST_REFERENCES} are needed",
            hint="name more cells, of several strategies and layouts",
        )
    records = {name: referred.record for name, referred in references.items()}
    bare = Golden(header=_header(problem, dtype, references), bases={1: basis})
    for name, record in records.items():
        check_reference(name, record, bare.header)
    check_basis(basis, problem.parameters)
    samples = {
        name: distances(record, basis, problem.parameters, bare.true_coefficients(record.header.layout.units))
        for name, record in records.items()
    }
    check_distances(samples, dtype.parameter)
    check_excess(samples)
    golden = replace(bare, header=replace(bare.header, noise=noise_floors(list(samples.values()))))
    if second is not None:
        golden = _with_second(golden, second, records)
    check_families(golden.header)
    check_assays(golden, records)
    controls = control_score(golden, records, problem, progress=progress or Silent())
    check_controls(controls)
    return replace(golden, header=replace(golden.header, controls=controls))


def _with_second(golden: Golden, second: Second, records: Mapping[str, Record]) -> Golden:
    units, rate = second.following.units, second.following.learning_rate
    ran = {name: record for name, record in records.items() if SECOND in record.captures}
    if len(ran) < LEAST_REFERENCES:
        raise UsageError(
            f"{len(ran)} references have {units} units, too few for the noise of a second step that follows them",
            hint=f"name at least {LEAST_REFERENCES} cells with dp * accum = {units}, or another number of units",
        )
    check_basis(second.basis, golden.header.parameters)
    true = golden.true_coefficients(units)
    samples = {
        name: distances(record, second.basis, golden.header.parameters, true, stage=SECOND)
        for name, record in ran.items()
    }
    check_distances(samples, golden.header.dtype.parameter)
    step = SecondStep(units=units, update=Update(learning_rate=rate), noise=noise_floors(list(samples.values())))
    return Golden(header=replace(golden.header, second=step), bases={**golden.bases, 2: second.basis})


def _header(problem: Problem, dtype: DtypeProfile, references: Mapping[str, Referred]) -> GoldenHeader:
    return GoldenHeader(
        problem=ProblemName(name=problem.name, digest=problem.digest),
        dtype=dtype,
        parameters=problem.parameters,
        objective=problem.objective,
        units=tuple(Unit(tokens=problem.tokens(unit)) for unit in range(problem.units)),
        noise={},
        references=tuple(
            Reference(
                strategy=referred.record.header.strategy,
                layout=referred.record.header.layout,
                record=referred.digest,
            )
            for referred in references.values()
        ),
        terms=problem.terms,
        environment=_common_environment([referred.record for referred in references.values()]),
        created=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    )


def _common_environment(records: Sequence[Record]) -> dict[str, Any]:
    """What all references say alike of where they ran; a strategy's options are its own."""
    first, *others = (record.header.environment for record in records)
    return {
        key: value
        for key, value in first.items()
        if key != "options" and all(other.get(key) == value for other in others)
    }
