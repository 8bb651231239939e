from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from gradassay.goldens.layout import Layout
from gradassay.goldens.record import read_record

pytestmark = [pytest.mark.dist, pytest.mark.frameworks, pytest.mark.slow]

NEWEST = "lightning==2.6.6"
BOUNDS = {"float64": 1e-12, "float32": 1e-6, "bfloat16": 2e-2}
CELLS = """
lightning==2.6.6 lightning-ddp moe-tiny dp2.accum3 float32
lightning==2.6.6 lightning-ddp moe-tiny dp1.accum2 float32
lightning==2.6.6 lightning-ddp ragged-tiny dp4.accum2 bfloat16
lightning==2.6.6 lightning-ddp moe-tiny dp2.accum3 bfloat16 precision=bf16-true
lightning==2.6.6 lightning-ddp dense-tiny dp3.accum1 float32 static_graph=true
lightning==2.6.6 lightning-ddp dense-tiny dp2.accum4 float64
lightning==2.6.6 lightning-fsdp2 moe-tiny dp2.accum3 float32
lightning==2.6.6 lightning-fsdp2 ragged-tiny dp3.accum4 float32
lightning==2.6.6 lightning-fsdp2 ragged-tiny dp4.accum2 bfloat16 reshard=false
lightning==2.6.6 lightning-fsdp2 moe-tiny dp2.accum3 bfloat16 precision=bf16-true
lightning==2.6.6 lightning-fsdp2 moe-tiny dp2.accum3 bfloat16 precision=bf16-mixed
lightning==2.5.6 lightning-ddp moe-tiny dp2.accum3 bfloat16
lightning==2.5.6 lightning-fsdp2 ragged-tiny dp2.accum3 float32
lightning==2.4.0 lightning-ddp ragged-tiny dp2.accum3 float32
lightning==2.4.0 lightning-fsdp2 moe-tiny dp2.accum3 float32
""".strip().splitlines()

Run = Callable[..., Path]


@pytest.mark.parametrize("text", CELLS)
def test_reduced_gradient_is_the_objective(run: Run, units: Any, deviations: Any, text: str) -> None:
    framework, strategy, problem, layout, dtype, *options = text.split()
    path = run(framework, strategy, problem, layout, dtype=dtype, **dict(each.split("=") for each in options))
    found = deviations(path, units(problem, Layout.parse(layout).units).truth)
    assert max(family.error for family in found.values()) < BOUNDS[dtype], found
    record = read_record(path)
    header = record.header
    assert f"{header.framework.name}=={header.framework.version}" == framework
    assert record.captures["reduced.1"].rank_sketch is None, "copies agree to the last bit"
    sharded = strategy.endswith("fsdp2") and header.layout.dp > 1
    assert all((parameter.shards is not None) == sharded for parameter in header.parameters)


@pytest.mark.parametrize("strategy", ["lightning-ddp", "lightning-fsdp2"])
def test_interference_reaches_the_reduced_gradient(run: Run, units: Any, deviations: Any, strategy: str) -> None:
    layout = Layout(dp=2, accum=2)
    path = run(NEWEST, strategy, "moe-tiny", str(layout), function="trainer_ranks:disturbed")
    basis = units("moe-tiny", layout.units)

    def expected(name: str) -> NDArray[np.float64]:
        tripled = np.ones(layout.units)
        if "norm" in name:
            tripled[layout.unit(1, 0)] = 3
        found: NDArray[np.float64] = basis.coefficients * tripled @ basis.loss[name]
        return found

    assert max(family.error for family in deviations(path, expected).values()) < BOUNDS["float32"]
    assert deviations(path, basis.truth)["norm"].error > 0.1


@pytest.mark.parametrize("framework", [NEWEST, "lightning==2.4.0"])
@pytest.mark.parametrize("strategy", ["lightning-ddp", "lightning-fsdp2"])
def test_clipping_and_update_are_of_the_reduced_gradient(run: Run, framework: str, strategy: str) -> None:
    captures = read_record(run(framework, strategy, "moe-tiny", "dp2.accum2", function="trainer_ranks:staged")).captures
    for step in (1, 2):
        reduced, clipped, update = (captures[f"{stage}.{step}"] for stage in ("reduced", "clipped", "update"))
        norm = np.sqrt(reduced.norm2.sum())
        assert norm > 0.1
        assert np.sqrt(clipped.norm2.sum()) == pytest.approx(0.1, rel=1e-4)
        assert clipped.sketch == pytest.approx(reduced.sketch * (0.1 / norm), rel=1e-4, abs=1e-7)
        assert np.linalg.norm(update.sketch - clipped.sketch) < 1e-3 * np.linalg.norm(clipped.sketch)
    assert not np.allclose(captures["reduced.1"].sketch, captures["reduced.2"].sketch), "the second step is another"
