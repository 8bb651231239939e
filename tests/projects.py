"""Other people's projects: a folder with tests of their own, run by a pytest of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree as Tree

TIMEOUT_S = 280.0
DEADLINE_S = 240.0
SETTINGS = ("GRADASSAY_", "COLUMNS", "NO_COLOR", "FORCE_COLOR", "PYTEST_", "PYTHONPATH")
ZOO = Path(__file__).parents[1] / ".zoo"
# Plugins that this checkout happens to have and a project like these has not.
PLAIN = ("-p", "no:cacheprovider", "-p", "no:schemathesis", "-p", "no:hypothesispytest", "-p", "no:anyio")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One test of a JUnit file. outcome: passed, failure, error or skipped. properties: without `gradassay.`."""

    outcome: str
    text: str
    properties: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """How a session of a project ended. cases: by test name."""

    code: int
    out: str
    cases: Mapping[str, Case] = field(default_factory=dict)

    @property
    def outcomes(self) -> dict[str, str]:
        """What each test came to."""
        return {name: case.outcome for name, case in self.cases.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A folder with tests."""

    folder: Path

    def write(self, **files: str) -> Project:
        """Writes files, `test_x="..."` as test_x.py; other suffixes by a double underscore: `matrix__toml`."""
        for name, text in files.items():
            stem, _, suffix = name.partition("__")
            (self.folder / f"{stem}.{suffix or 'py'}").write_text(text)
        return self

    def command(self, *arguments: str | Path) -> list[str]:
        """The command that runs its tests."""
        junit = f"--junitxml={self.folder / 'junit.xml'}"
        return [sys.executable, "-m", "pytest", *PLAIN, junit, *map(str, arguments)]

    def environment(self, variables: Mapping[str, str] | None = None) -> dict[str, str]:
        """The variables that its tests run with, those of an activated environment."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith(SETTINGS)}
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        zoo = os.environ.get("GRADASSAY_ZOO", str(ZOO))
        return kept | {"PATH": path, "GRADASSAY_ZOO": zoo} | dict(variables or {})

    def run(self, *arguments: str | Path, variables: Mapping[str, str] | None = None) -> Ran:
        """Runs its tests to the end."""
        done = subprocess.run(
            self.command(*arguments),
            cwd=self.folder,
            env=self.environment(variables),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        return Ran(code=done.returncode, out=done.stdout, cases=self.cases())

    def cases(self) -> dict[str, Case]:
        """What the JUnit file of the last session says."""
        path = self.folder / "junit.xml"
        if not path.exists():
            return {}
        found = {}
        for node in Tree.parse(path).iter("testcase"):
            problem = next((child for child in node if child.tag in ("failure", "error", "skipped")), None)
            found[node.get("name", "")] = Case(
                outcome="passed" if problem is None else problem.tag,
                text="" if problem is None else f"{problem.get('message')}\n{problem.text or ''}",
                properties={
                    item.get("name", "").removeprefix("gradassay."): item.get("value", "")
                    for item in node.iter("property")
                },
            )
        return found


def until(happened: Callable[[], bool], running: subprocess.Popen[bytes] | None = None) -> None:
    """Waits for something to happen, while `running` runs."""
    late = time.monotonic() + DEADLINE_S
    while not happened():
        assert time.monotonic() < late, "it did not happen in time"
        assert running is None or running.poll() is None, "the session ended before it happened"
        time.sleep(0.05)
