"""Goldens of the package's problems whose basis is real and whose noise floor is assumed: seconds instead of a minute."""

from __future__ import annotations

from functools import cache

from gradassay.goldens.golden import Golden
from gradassay.goldens.header import DtypeProfile, GoldenHeader, NoiseFloor, Reference, Unit
from gradassay.goldens.header import Problem as ProblemName
from gradassay.goldens.layout import Layout
from gradassay.harness.problems import load_problem

NOISE = NoiseFloor(q50=2e-7, q999=6e-7, samples=240)
CREATED = "2026-11-30T12:00:00Z"


@cache
def quick_golden(name: str = "moe-tiny", *, units: int = 12) -> Golden:
    """The golden of a problem's first units in float32."""
    import torch

    from gradassay.harness.build.basis import basis_arrays, to_basis

    problem = load_problem(name)
    model = problem.build(torch.float64)
    basis = to_basis(basis_arrays(problem, model, [problem.batch(unit) for unit in range(units)]))
    header = GoldenHeader(
        problem=ProblemName(name=problem.name, digest=problem.digest),
        dtype=DtypeProfile(),
        parameters=problem.parameters,
        objective=problem.objective,
        units=tuple(Unit(tokens=problem.tokens(unit)) for unit in range(units)),
        noise={parameter.family: NOISE for parameter in problem.parameters},
        references=(Reference(strategy="fsdp2", layout=Layout(dp=4)),),
        terms=problem.terms,
        created=CREATED,
    )
    return Golden(header=header, bases={1: basis})
