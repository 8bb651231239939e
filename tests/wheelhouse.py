"""The wheel of this checkout, and environments that have it and nothing else of the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

CHECKOUT = Path(__file__).resolve().parents[1]
ZOO = os.environ.get("GRADASSAY_ZOO", str(CHECKOUT / ".zoo"))
TIMEOUT_S = 900.0
OWN = ("GRADASSAY_", "PYTHON", "PYTEST_", "VIRTUAL_ENV", "COLUMNS")
PINNED = ("--constraint", str(CHECKOUT / "ci" / "constraints.txt"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What a command printed and how it ended."""

    code: int
    out: str
    err: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Home:
    """An environment of its own in `folder`, with the wheel in it."""

    folder: Path

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.folder / "bin" / "python"

    @property
    def packages(self) -> Path:
        """Where pip installs into it."""
        return next((self.folder / "lib").glob("python*")) / "site-packages"

    def variables(self, **further: str) -> dict[str, str]:
        """What its commands run with: its programs first, and no setting of the surrounding tests."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith(OWN)}
        path = f"{self.folder / 'bin'}{os.pathsep}{kept['PATH']}"
        own = {"PATH": path, "GRADASSAY_ZOO": ZOO, "GRADASSAY_CACHE": str(self.folder / "cache"), "PIP_NO_INDEX": "1"}
        return {**kept, **own, **further}

    def run(self, *command: str | Path, cwd: Path, **variables: str) -> Ran:
        """Runs a program of it, or of the machine, in the folder `cwd`."""
        done = subprocess.run(
            [str(self.folder / "bin" / command[0]), *map(str, command[1:])],
            cwd=cwd,
            env=self.variables(**variables),
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        return Ran(code=done.returncode, out=done.stdout, err=done.stderr)


def build_wheel(folder: Path) -> Path:
    """The wheel of the checkout as it is now."""
    _pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(CHECKOUT))
    (built,) = folder.glob("gradassay-*.whl")
    return built


def installed(folder: Path, wheel: Path) -> Home:
    """An environment made by `pip install WHEEL` alone: what a bare installation brings, from the package index."""
    venv.create(folder, symlinks=True)
    home = Home(folder=folder)
    _pip("--python", str(home.python), "install", *PINNED, str(wheel))
    return home


def sharing(folder: Path, wheel: Path, *names: str) -> Home:
    """An environment with the wheel, what it requires, and `names` with what they require, linked from this environment.

    Nothing else of this environment can be imported there: every distribution is a link of its own.
    """
    venv.create(folder, symlinks=True)
    home, shared = Home(folder=folder), folder / "shared"
    shared.mkdir()
    for found in _closure(["pip", "gradassay", *names]):
        _link(found, shared, home)
    (home.packages / "shared.pth").write_text(f"{shared}\n")
    _pip("--python", str(home.python), "install", "--no-deps", str(wheel))
    return home


def _closure(names: Iterable[str]) -> Iterator[Distribution]:
    """The distributions that these require, with extras, down to the last; gradassay itself is left out."""
    waiting, seen = [Requirement(name) for name in names], set[str]()
    while waiting:
        wanted = waiting.pop()
        if str(wanted) in seen:
            continue
        seen.add(str(wanted))
        found = distribution(wanted.name)
        if wanted.name != "gradassay":
            yield found
        for requirement in map(Requirement, found.requires or ()):
            extras = wanted.extras or {""}
            if requirement.marker is None or any(requirement.marker.evaluate({"extra": extra}) for extra in extras):
                waiting.append(requirement)


def _link(found: Distribution, shared: Path, home: Home) -> None:
    """Links what the distribution has in this environment, and writes its programs."""
    for top in {file.parts[0] for file in found.files or () if file.parts[0] not in ("..", "__pycache__")}:
        link = shared / top
        if not link.is_symlink() and not top.endswith(".pth"):
            link.symlink_to(Path(str(found.locate_file(top))).resolve())
    for program in found.entry_points.select(group="console_scripts"):
        file = home.folder / "bin" / program.name
        file.write_text(
            f"#!{home.python}\nimport sys\nfrom {program.module} import {program.attr}\nsys.exit({program.attr}())\n"
        )
        file.chmod(0o755)


def _pip(*arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout."""
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="session")
def bare(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Home:
    """What `pip install gradassay` brings: neither torch nor MLflow."""
    return installed(tmp_path_factory.mktemp("bare") / "environment", wheel)


@pytest.fixture(scope="session")
def training(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Home:
    """Torch, pytest and pytest-xdist beside the wheel: no MLflow, no server."""
    folder = tmp_path_factory.mktemp("training") / "environment"
    return sharing(folder, wheel, "gradassay[torch]", "pytest", "pytest-xdist", "pytest-timeout")


@pytest.fixture(scope="session")
def everything(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Home:
    """Every extra that people install beside each other, pytest and pytest-xdist."""
    folder = tmp_path_factory.mktemp("everything") / "environment"
    return sharing(folder, wheel, "gradassay[torch,mlflow,server]", "pytest", "pytest-xdist")
