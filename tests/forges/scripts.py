"""The scripts of the action and of the template, run as runners run them, with programs that note their calls."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

CI = Path(__file__).parents[2] / "ci"
RECORDER = """#!{python}
import json, os, sys
named = {{key: value for key, value in os.environ.items() if key.startswith(("GRADASSAY_", "GITHUB_TOKEN", "ACTIONS_"))}}
with open(os.environ["CALLS"], "a") as file:
    file.write(json.dumps([os.path.basename(sys.argv[0]), sys.argv[1:], named]) + "\\n")
if "ci" in sys.argv and os.environ.get("VERDICT"):
    with open(os.environ["GITHUB_OUTPUT"], "a") as file:
        file.write("verdict=" + os.environ["VERDICT"] + "\\n")
sys.exit(int(os.environ.get("EXIT", "0")) if "ci" in sys.argv else 0)
"""
PYTHON = """#!/bin/sh
if [ "$1" = -m ]; then exec pip-recorder "$@"; fi
exec {python} "$@"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One program that was called. variables: those of gradassay that it saw."""

    program: str
    arguments: list[str]
    variables: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """A script that ended. outputs: of the step."""

    code: int
    log: str
    calls: list[Call]
    outputs: dict[str, str]


class Sandbox:
    """A folder in which scripts run. Only what `bin` and the system hold is on the path."""

    def __init__(self, folder: Path, *, installed: bool = True) -> None:
        self.folder = folder
        self.bin = folder / "bin"
        self.bin.mkdir()
        self._write("pip-recorder", RECORDER.format(python=sys.executable))
        self._write("python", PYTHON.format(python=sys.executable))
        if installed:
            self._write("gradassay", RECORDER.format(python=sys.executable))

    def use_real(self) -> None:
        """Puts gradassay itself where the recorder was."""
        self._write("gradassay", f'#!/bin/sh\nexec {sys.executable} -m gradassay.cli.main "$@"\n')

    def run(self, script: str, shell: list[str], variables: Mapping[str, str]) -> Done:
        """The script, in a shell of a runner."""
        calls, outputs = self.folder / "calls", self.folder / "outputs"
        for file in (calls, outputs):
            file.unlink(missing_ok=True)
        file = self.folder / "script.sh"
        file.write_text(script)
        base = {"PATH": f"{self.bin}:/usr/bin:/bin", "HOME": str(self.folder), "LANG": "C.UTF-8"}
        done = subprocess.run(
            [*shell, str(file)],
            cwd=self.folder,
            env=base | {"CALLS": str(calls), "GITHUB_OUTPUT": str(outputs)} | dict(variables),
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        written = outputs.read_text() if outputs.exists() else ""
        return Done(
            code=done.returncode,
            log=done.stdout + done.stderr,
            calls=[_call(line) for line in calls.read_text().splitlines()] if calls.exists() else [],
            outputs=dict(line.split("=", 1) for line in written.splitlines()),
        )

    def _write(self, name: str, text: str) -> None:
        (self.bin / name).write_text(text)
        (self.bin / name).chmod(0o755)


def _call(line: str) -> Call:
    program, arguments, variables = json.loads(line)
    return Call(program=program, arguments=arguments, variables=variables)


def action_step(sandbox: Sandbox, name: str, *, given: Mapping[str, str], contexts: Mapping[str, str]) -> Done:
    """A step of the action, with these inputs; contexts: what expressions of other kinds come to, empty by default."""
    action = yaml.safe_load((CI / "github" / "action.yml").read_text())
    known = {f"inputs.{key}": str(value.get("default", "")) for key, value in action["inputs"].items()}
    assert set(given) <= set(action["inputs"])
    values = known | {f"inputs.{key}": value for key, value in given.items()} | dict(contexts)
    step = next(step for step in action["runs"]["steps"] if step["name"] == name)
    assert step["shell"] == "bash"
    variables = {key: _evaluated(text, values) for key, text in step["env"].items()}
    runner = {key: value for key, value in contexts.items() if key.isupper()}
    # GitHub documents this as what `shell: bash` stands for.
    return sandbox.run(step["run"], ["bash", "--noprofile", "--norc", "-eo", "pipefail"], runner | variables)


def _evaluated(text: str, values: Mapping[str, str]) -> str:
    """What the expression of the form `${{ a || b }}` comes to."""
    found = re.fullmatch(r"\$\{\{ ([\w. |-]+) \}\}", text)
    assert found is not None, text
    names = [name.strip() for name in found[1].split("||")]
    value = next((values[name] for name in names if values.get(name)), "")
    return _evaluated(value, values) if value.startswith("${{") else value


def template_job(sandbox: Sandbox, part: str, variables: Mapping[str, str], *, shell: str) -> Done:
    """`script` or `before_script` of the template, with these variables of the pipeline."""
    job: dict[str, Any] = yaml.safe_load((CI / "gitlab" / "gradassay.yml").read_text())[".gradassay"]
    assert shutil.which(shell)
    options = ["-eo", "pipefail"] if shell == "bash" else ["-e"]
    return sandbox.run("\n".join(job[part]), [shell, *options], {**job["variables"], **variables})


def inherited(**more: str) -> dict[str, str]:
    """The variables that a real gradassay needs in such a script."""
    names = ("OMP_NUM_THREADS", "GLOO_SOCKET_IFNAME", "PYTHONPATH")
    return {name: os.environ[name] for name in names if name in os.environ} | more
