"""What is said of a golden wherever one is shown."""

from __future__ import annotations

import math
from typing import Any

from gradassay.goldens.assay.truth import assay_truth
from gradassay.goldens.golden import Golden
from gradassay.goldens.header import Controls


def golden_facts(golden: Golden) -> dict[str, Any]:
    """The golden's facts as JSON values, without arrays and names of parameters; power that is not finite is null."""
    header = golden.header
    families: dict[str, dict[str, int]] = {}
    for parameter in header.parameters:
        family = families.setdefault(parameter.family, {"parameters": 0, "elements": 0})
        family["parameters"] += 1
        family["elements"] += parameter.numel
    return {
        "problem": {"name": header.problem.name, "digest": header.problem.digest},
        "dtype": str(header.dtype),
        "dtype_profile": {
            "parameter": header.dtype.parameter,
            "gradient": header.dtype.gradient,
            "reduce": header.dtype.reduce,
        },
        "objective": header.objective,
        "terms": list(header.terms),
        "steps": sorted(golden.bases),
        "units": [unit.tokens for unit in header.units],
        "families": families,
        "noise": {
            family: {"q50": floor.q50, "q999": floor.q999, "samples": floor.samples}
            for family, floor in header.noise.items()
        },
        "power": {
            family: value if math.isfinite(value) else None for family, value in assay_truth(golden).power.items()
        },
        "controls": _controls(header.controls),
        "references": [
            {"strategy": reference.strategy, "layout": str(reference.layout), "record": reference.record}
            for reference in header.references
        ],
        "environment": header.environment,
        "created": header.created,
    }


def _controls(controls: Controls | None) -> dict[str, Any] | None:
    """None where the golden says nothing of them: it was built by a release that did not try."""
    if controls is None:
        return None
    return {
        "tried": controls.tried,
        "kinds": controls.kinds,
        "layouts": list(controls.layouts),
        "detected": controls.detected,
        "named": controls.named,
        "undetected": list(controls.undetected),
        "unnamed": list(controls.unnamed),
    }
