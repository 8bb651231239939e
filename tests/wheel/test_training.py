"""With torch and without MLflow: steps are run and recorded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from wheelhouse import Home

pytestmark = [pytest.mark.wheel, pytest.mark.dist]


def test_the_environment_is_what_it_claims_to_be(training: Home, tmp_path: Path) -> None:
    program = (
        "import gradassay.harness, gradassay.harness.worker\n"
        "from importlib.util import find_spec\n"
        "print(gradassay.harness.__file__, gradassay.harness.worker.__file__)\n"
        "print([module for module in ('torch', 'mlflow', 'fastapi', 'sqlalchemy', 'deepspeed') if find_spec(module)])\n"
    )
    ran = training.run("python", "-c", program, cwd=tmp_path)
    files, optional = ran.out.splitlines()

    assert all(Path(file).is_relative_to(training.packages) for file in files.split()), ran
    assert optional == "['torch']"
    assert training.run("pip", "check", cwd=tmp_path).code == 0


@pytest.mark.slow
def test_a_step_is_recorded_and_judges_itself(training: Home, tmp_path: Path) -> None:
    cell = ("dense-tiny", "--strategy", "ddp", "--dp", "2", "--accum", "3", "--self-assay")
    recorded = training.run("gradassay", "record", *cell, "--out", "run.safetensors", cwd=tmp_path)
    judged = training.run("gradassay", "--json", "diff", "run.safetensors", cwd=tmp_path)

    assert recorded.code == 0, recorded.err
    assert json.loads(judged.out)["verdict"] == "agree", judged.err


def test_a_framework_that_is_not_there_is_asked_for(training: Home, tmp_path: Path) -> None:
    ran = training.run("gradassay", "record", "dense-tiny", "--strategy", "deepspeed-zero2", "--dp", "2", cwd=tmp_path)

    assert ran.code == 2, ran.err
    assert "pip install 'gradassay[deepspeed]'" in ran.err
    assert "Traceback" not in ran.err
