"""The command line as a user runs it: a process of its own, with its streams and its exit code."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
import structlog

import served
from builders import Toy
from gradassay.api.auth.scope import Scope
from gradassay.cli.main import run
from gradassay.goldens.golden import Golden
from gradassay.goldens.layout import Layout
from gradassay.goldens.record import Record
from served import Service

TIMEOUT_S = 600.0
SETTINGS = ("GRADASSAY_", "COLUMNS", "NO_COLOR", "FORCE_COLOR", "ACTIONS_", "GITHUB_", "GITLAB_", "CI_")
ZOO = Path(__file__).parents[2] / ".zoo"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What a command printed and how it ended."""

    code: int
    out: str
    err: str


@pytest.fixture
def gradassay(tmp_path: Path) -> Callable[..., Ran]:
    """Runs `gradassay` with these arguments in the test's own folder, with a store in a folder there."""

    def start(*arguments: str | Path, variables: Mapping[str, str] | None = None) -> Ran:
        kept = {key: value for key, value in os.environ.items() if not key.startswith(SETTINGS)}
        own = {
            "GRADASSAY_STORE": f"dir:{tmp_path / 'store'}",
            "GRADASSAY_SPOOL": str(tmp_path / "spool"),
            "GRADASSAY_ZOO": os.environ.get("GRADASSAY_ZOO", str(ZOO)),
        }
        environment = kept | own | dict(variables or {})
        done = subprocess.run(
            [sys.executable, "-m", "gradassay.cli.main", *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            cwd=tmp_path,
            env=environment,
            check=False,
        )
        return Ran(code=done.returncode, out=done.stdout, err=done.stderr)

    return start


@pytest.fixture
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """The same, but within this process: faster, for the many ways in which a command can be asked wrongly."""

    def execute(*arguments: str | Path) -> Ran:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("GRADASSAY_STORE", f"dir:{tmp_path / 'store'}")
        monkeypatch.setenv("GRADASSAY_SPOOL", str(tmp_path / "spool"))
        monkeypatch.setattr(sys, "argv", ["gradassay", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            run()
        said = capfd.readouterr()
        return Ran(code=int(ended.value.code or 0), out=said.out, err=said.err)

    return execute


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """A golden and records of it: healthy, experts twice too large (ep = 2), and four times (ep = 4)."""

    golden: Path
    healthy: Path
    doubled: Path
    quadrupled: Path


@pytest.fixture
def files(
    tmp_path: Path, make_toy: Callable[..., Toy], make_golden: Callable[..., Golden], make_record: Callable[..., Record]
) -> Files:
    """The files, in the folder where commands run."""
    toy = make_toy()
    made = Files(
        golden=tmp_path / "golden.safetensors",
        healthy=tmp_path / "healthy.safetensors",
        doubled=tmp_path / "doubled.safetensors",
        quadrupled=tmp_path / "quadrupled.safetensors",
    )
    make_golden(toy).write(made.golden)
    make_record(toy, layout=Layout(dp=4, ep=2, accum=3)).write(made.healthy)
    make_record(toy, layout=Layout(dp=4, ep=2, accum=3), weights={"expert": 2.0}).write(made.doubled)
    make_record(toy, layout=Layout(dp=4, ep=4, accum=3), weights={"expert": 4.0}).write(made.quadrupled)
    return made


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    """A service on loopback with a store of its own."""
    folder = tmp_path / "service"
    folder.mkdir()
    # It runs in this process: what it logs would stand among what commands print.
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory(), processors=[])
    with served.serving(folder, uploads=folder, max_upload_bytes=2**26) as running:
        yield running
    structlog.reset_defaults()


@pytest.fixture
def online(
    inside: Callable[..., Ran], service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Ran]:
    """As `inside`, with the address of the service and a token with every scope in the environment."""
    monkeypatch.setenv("GRADASSAY_URL", service.url)
    monkeypatch.setenv("GRADASSAY_TOKEN", token(service, *Scope))
    monkeypatch.setenv("GRADASSAY_RETRY_S", "5")
    monkeypatch.setenv("GRADASSAY_CACHE", str(tmp_path / "cache"))
    return inside


def token(service: Service, *scopes: Scope, project: str = "default", name: str = "ci") -> str:
    """The secret of a new token."""
    return served.mint(service, *scopes, project=project, name=name)["Authorization"].removeprefix("Bearer ")
