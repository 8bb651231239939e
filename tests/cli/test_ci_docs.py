"""docs/ci.md: what it tells people to type works."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from gradassay.api.auth.issuer import OidcIssuer
from gradassay.api.auth.scope import Scope
from gradassay.api.ledger.deciding import Decision
from gradassay.goldens.errors import Exit
from served import Service, mint

if TYPE_CHECKING:
    from conftest import Files, Ran

Command = Callable[..., "Ran"]
DOCUMENT = (Path(__file__).parents[2] / "docs" / "ci.md").read_text(encoding="utf-8")


def block(language: str, after: str) -> str:
    """The first block of this language after a heading."""
    return re.findall(rf"```{language}\n(.*?)```", DOCUMENT.split(after, 1)[1], re.DOTALL)[0]


def test_the_commands_with_curl_end_with_the_exit_code(service: Service, files: Files, tmp_path: Path) -> None:
    version = service.parts.ledger.propose(files.golden, who="ada", project="default")
    service.parts.ledger.decide(version.name, 1, Decision.APPROVE, who="ada", why="measured")
    script = block("sh", "## With curl alone")
    token = mint(service, Scope.POST)["Authorization"].removeprefix("Bearer ")
    environment = os.environ | {"GRADASSAY_URL": service.url, "GRADASSAY_TOKEN": token}

    for file, code in ((files.healthy, 0), (files.doubled, 1)):
        shutil.copy(file, tmp_path / "record.safetensors")
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stderr
        assert json.loads((tmp_path / "assay.json").read_text())["exit"] == code


def test_the_issuer_is_one_that_the_service_takes() -> None:
    (issuer,) = json.loads(block("json", "## A token without a secret"))

    assert OidcIssuer.model_validate(issuer).projects == {"our-org/trainer": "trainer"}


def test_the_workflow_is_yaml_that_asks_for_the_identity_and_hides_the_token() -> None:
    job = yaml.safe_load(block("yaml", "## A token without a secret"))["jobs"]["gradients"]

    exchange = next(step["run"] for step in job["steps"] if "/tokens/exchange" in step.get("run", ""))
    assert job["permissions"]["id-token"] == "write"
    assert exchange.index("::add-mask::") < exchange.index("GITHUB_ENV")


@pytest.mark.parametrize("code", [code for code in Exit if code is not Exit.BUG])
def test_every_exit_code_is_explained(code: Exit) -> None:
    rows = re.findall(r"^\| ([\d, ]+) \|", DOCUMENT, re.MULTILINE)
    assert str(int(code)) in {number.strip() for row in rows for number in row.split(",")}


def test_a_job_needs_neither_torch_nor_a_server(service: Service, files: Files) -> None:
    """`post` and `wait` import what comes with the bare package, so that a job installs nothing else."""
    script = (
        "import sys\n"
        "from gradassay.cli.main import run\n"
        "try:\n"
        "    run()\n"
        "except SystemExit as ended:\n"
        "    heavy = {'torch', 'mlflow', 'fastapi', 'sqlalchemy', 'starlette'} & set(sys.modules)\n"
        "    sys.exit(f'imported {heavy}' if heavy else ended.code)\n"
    )
    token = mint(service, Scope.POST)["Authorization"].removeprefix("Bearer ")
    done = subprocess.run(
        [sys.executable, "-c", script, "post", files.healthy, "--wait", "--url", service.url],
        env=os.environ | {"GRADASSAY_TOKEN": token},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3, done.stderr
