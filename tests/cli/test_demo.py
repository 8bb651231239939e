"""The main job, from nothing to a named fault, on real runs of real frameworks."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Ran

Command = Callable[..., "Ran"]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.dist
@pytest.mark.frameworks
def test_the_demo_says_what_it_promises(gradassay: Command, tmp_path: Path) -> None:
    ran = gradassay("demo", "--out", "demo")

    assert ran.code == 0, ran.out + ran.err
    said = " ".join(ran.out.split())
    assert "NOT AS EXPECTED" not in said
    assert "moe-tiny.float32 v1 is approved" in said
    assert said.count("agree none") == 7
    assert "expert parameters in 4 cells together: w[r,m] = ep same signature as deepspeed-6545" in said
    assert "all parameters in 3 cells together: w[r,m] = dp**(m-M+2) same signature as megatron-lm-3023" in said
    assert "its own local gradients" in said
    assert (tmp_path / "demo" / "deepspeed-0.15.3.html").is_file()
    again = gradassay("--store", "demo", "golden", "list", "--json")
    assert json.loads(again.out)[0]["channels"] == ["approved"]
