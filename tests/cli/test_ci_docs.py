"""docs/ci.md: what it tells people to type works."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import typer.main
import yaml

from gradassay.api.auth.issuer import OidcIssuer
from gradassay.api.auth.scope import Scope
from gradassay.api.ledger.deciding import Decision
from gradassay.cli.main import app, hoist
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


def commands() -> list[list[str]]:
    """The arguments of every `gradassay` that the page tells people to type."""
    lines = "\n".join(re.findall(r"```(?:sh|yaml)\n(.*?)```", DOCUMENT, re.DOTALL)).splitlines()
    found = [re.sub(r"^\s*(- run: )?", "", line) for line in lines]
    return [shlex.split(line, comments=True)[1:] for line in found if line.startswith("gradassay ")]


def test_every_command_has_the_options_that_it_is_shown_with() -> None:
    group = typer.main.get_command(app)
    for arguments in commands():
        with group.make_context("gradassay", hoist(arguments)) as context:
            words = [*context._protected_args, *context.args]
            command: Any = group
            while hasattr(command, "resolve_command"):
                _, command, words = command.resolve_command(context, words)
            command.make_context(command.name, words)
    assert {arguments[0] for arguments in commands()} == {"golden", "ci", "post", "record"}


def test_the_issuer_is_one_that_the_service_takes() -> None:
    (issuer,) = json.loads(block("json", "## A token without a secret"))

    assert OidcIssuer.model_validate(issuer).projects == {"our-org/trainer": "trainer"}


def test_the_workflow_asks_for_the_identity_and_needs_no_secret() -> None:
    job = yaml.safe_load(block("yaml", "## A token without a secret"))["jobs"]["gradients"]

    assert job["permissions"] == {"contents": "read", "id-token": "write"}
    assert job["env"] == {"GRADASSAY_URL": "https://gradassay.example.org"}
    assert job["steps"][-1]["run"].startswith("gradassay ci ")


@pytest.mark.parametrize("code", list(Exit))
def test_every_exit_code_is_explained(code: Exit) -> None:
    rows = re.findall(r"^\| ([\d, ]+) \|", DOCUMENT, re.MULTILINE)
    assert str(int(code)) in {number.strip() for row in rows for number in row.split(",")}


def test_a_job_needs_neither_torch_nor_a_server(service: Service, files: Files, tmp_path: Path) -> None:
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
        env=os.environ | {"GRADASSAY_TOKEN": token, "GRADASSAY_SPOOL": str(tmp_path / "spool")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3, done.stderr
