"""`gradassay power`: what is refused, and one golden measured for real."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Files, Ran

Command = Callable[..., "Ran"]


def test_a_record_is_no_golden(inside: Command, files: Files) -> None:
    ran = inside("power", files.healthy)
    assert (ran.code, ran.out) == (2, "")
    assert "is no golden" in ran.err


def test_a_problem_that_is_not_here_cannot_be_run(inside: Command, files: Files) -> None:
    ran = inside("power", files.golden)
    assert (ran.code, ran.out) == (2, "")
    assert "toy" in ran.err


@pytest.mark.dist
@pytest.mark.slow
def test_a_golden_is_measured(gradassay: Command, tmp_path: Path) -> None:
    (tmp_path / "matrix.toml").write_text(
        '[[matrix]]\nstrategies = ["ddp", "single"]\ndp = [1, 4]\naccum = [1, 3, 12]\n'
    )
    built = gradassay("golden", "build", "dense-tiny", "--matrix", "matrix.toml", "--out", "golden.safetensors")
    assert built.code == 0, built.err

    ran = gradassay("power", "golden.safetensors", "--json")

    assert ran.code == 0, ran.err
    own = [one for one in json.loads(ran.out)["smallest"] if one["check"] == "gradassay"]
    assert {one["family"] for one in own} == {"embedding", "norm", "dense", "bias"}
    factors = [one for one in own if one["error"].startswith("factor")]
    assert len(factors) == 8
    assert all(one["worst"] <= 1e-5 and one["alarms"] == 0 for one in factors)
