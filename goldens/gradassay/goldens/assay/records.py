"""Record against record: without the gradients of units, one factor a parameter is all that can be seen."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gradassay.goldens.assay.compare import assay_evidence, without_verdict
from gradassay.goldens.assay.convention import declared_scales
from gradassay.goldens.assay.evidence import Evidence, matched
from gradassay.goldens.assay.result import Assay, Side, Verdict
from gradassay.goldens.assay.shapes import Setting
from gradassay.goldens.assay.stages import averaging
from gradassay.goldens.header import NoiseFloor
from gradassay.goldens.record import Record

# Nobody measured the rounding of two single runs: these are generous for their dtypes, and every report says so.
ASSUMED_NOISE: Mapping[str, NoiseFloor] = {
    "float64": NoiseFloor(q50=1e-14, q999=1e-12, samples=1000),
    "float32": NoiseFloor(q50=3e-7, q999=3e-6, samples=1000),
    "float16": NoiseFloor(q50=2e-3, q999=1e-2, samples=1000),
    "bfloat16": NoiseFloor(q50=1e-2, q999=4e-2, samples=1000),
}


def assay_records(
    a: Record,
    b: Record,
    *,
    stage: str = "reduced",
    step: int = 1,
    side_a: Side | None = None,
    side_b: Side | None = None,
) -> Assay:
    """The assay of record b against record a, with tolerances assumed for their dtype.

    Weights of units stay unknown; laws are uniform factors, named in the sizes of b's layout.
    """
    side_a = side_a or Side(kind="record", ref=a.header.strategy, environment=a.header.environment)
    side_b = side_b or Side(kind="record", ref=b.header.strategy, environment=b.header.environment)
    reason = _incomparable(a, b, f"{stage}.{step}")
    if reason:
        return without_verdict(Verdict.INCOMPARABLE, reason, b.header.layout, stage, side_a, side_b)
    evidence = _gather(a, b, f"{stage}.{step}")
    matched = {parameter.name for parameter in evidence.parameters}
    assumed = ASSUMED_NOISE.get(b.header.dtype.gradient, ASSUMED_NOISE["bfloat16"])
    noise = {parameter.family: assumed for parameter in evidence.parameters}
    return assay_evidence(
        evidence,
        noise,
        framework=b.header.framework.name,
        stage=f"{stage}.{step}",
        missing=tuple(p.name for p in a.header.parameters if p.name not in matched),
        extra=tuple(p.name for p in b.header.parameters if p.name not in matched),
        a=side_a,
        b=side_b,
        notes=(
            f"tolerances are assumed for {b.header.dtype.gradient} gradients, not measured: "
            "compare with a golden for measured ones and for weights by micro-batch and rank",
        ),
    )


def _incomparable(a: Record, b: Record, key: str) -> str:
    one, two = a.header, b.header
    if one.problem != two.problem:
        return f"the records are of problems {one.problem.name} and {two.problem.name} ({two.problem.digest})"
    if one.layout.units != two.layout.units:
        return (
            f"layouts {one.layout} and {two.layout} train on {one.layout.units} and {two.layout.units} units, "
            "so their gradients differ rightly: compare each with a golden"
        )
    lacking = [side.header.strategy for side in (a, b) if key not in side.captures]
    return f"{' and '.join(lacking)} did not capture {key}" if lacking else ""


def _gather(a: Record, b: Record, key: str) -> Evidence:
    there, here = matched(a.header.parameters, b.header.parameters)
    one, two, layout = a.captures[key], b.captures[key], b.header.layout
    parameters = tuple(b.header.parameters[index] for index in here)
    scales = (
        np.array(declared_scales(a.header, parameters))[:, None],
        np.array(declared_scales(b.header, parameters))[:, None],
    )
    truth = one.sketch[there] / scales[0]
    return Evidence(
        setting=Setting(layout=layout, tokens=np.ones((layout.dp, layout.accum)), resolved=False),
        parameters=parameters,
        basis=np.broadcast_to(truth, (layout.units, *truth.shape)),
        true=np.full(layout.units, 1 / layout.units),
        truth=truth,
        measured=two.sketch[here] / scales[1],
        copies=two.rank_sketch[:, here] / scales[1] if two.rank_sketch is not None else None,
        terms={},
        history=None,
        norm2=two.norm2[here],
        nonfinite=two.nonfinite[here] + one.nonfinite[there],
        present=two.present[here],
        storage=np.full(len(parameters), 2.0**-23 + averaging(a.header) + averaging(b.header)),
        cancelled=np.ones(len(parameters)),
    )
