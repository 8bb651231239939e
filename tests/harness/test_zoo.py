from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from gradassay.goldens.errors import UsageError
from gradassay.harness import environments, zoo
from gradassay.harness.environments import ROOT_SETTING, Family, environment, installed

SETUP = """
import os
gate = os.environ.get("TOY_GATE")
if gate:
    with open(gate + ".reached", "w"):
        pass
    open(gate).read()
from setuptools import setup
setup(name="toy", version="1.0", py_modules=["toy"])
"""
"""Builds a release of one module; where TOY_GATE names a pipe, it says that it was reached and waits for the pipe."""

INSTALL = """
import sys
from gradassay.harness import environments, zoo
environments.FAMILIES["toy"] = environments.Family(strategies=("ddp",), name="toy", requires=())
raise SystemExit(zoo.main(["toy==1.0"]))
"""


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the source of toy 1.0, the only place where pip looks; a zoo beside it."""
    folder = tmp_path / "index"
    folder.mkdir()
    with tarfile.open(folder / "toy-1.0.tar.gz", "w:gz") as archive:
        for name, text in {"setup.py": SETUP, "toy.py": "", "PKG-INFO": "Name: toy\nVersion: 1.0\n"}.items():
            member = tarfile.TarInfo(f"toy-1.0/{name}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    settings = {
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(folder),
        "PIP_NO_CACHE_DIR": "1",
        ROOT_SETTING: str(tmp_path / "zoo"),
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setitem(environments.FAMILIES, "toy", Family(strategies=("ddp",), name="toy", requires=()))  # type: ignore[arg-type]
    return folder


@pytest.fixture
def folder(index: Path, tmp_path: Path) -> Path:
    return tmp_path / "zoo" / "toy-1.0"


def start_installer() -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", INSTALL], start_new_session=True, stderr=subprocess.DEVNULL)


def wait_for(path: Path, process: subprocess.Popen[bytes]) -> None:
    while not path.exists():
        assert process.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=0.05)


def test_a_release_is_installed_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert zoo.main(["toy==1.0"]) == 0
    assert environment("toy==1.0").paths == (folder,)
    assert (folder / "toy.py").exists()
    before = (folder / "toy.py").stat().st_ino
    assert zoo.install("toy==1.0") == folder
    assert (folder / "toy.py").stat().st_ino == before
    assert [path.name for path in folder.parent.iterdir() if path.name.endswith(".partial")] == []


def test_what_pip_cannot_find_leaves_nothing_behind(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert zoo.main(["toy==2.0"]) == 2
    assert "No matching distribution found for toy==2.0" in capsys.readouterr().err
    assert [path.name for path in folder.parent.iterdir()] == [".toy-2.0.lock"]


def test_an_installer_killed_half_way_leaves_nothing_that_counts(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    monkeypatch.setenv("TOY_GATE", str(gate))
    process = start_installer()
    wait_for(tmp_path / "gate.reached", process)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert not installed(folder)
    assert list(folder.parent.glob(".toy-1.0.*.partial"))
    monkeypatch.delenv("TOY_GATE")
    zoo.install("toy==1.0")
    assert installed(folder)
    assert not list(folder.parent.glob(".toy-1.0.*.partial"))


def test_of_two_installers_the_second_finds_it_done(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    monkeypatch.setenv("TOY_GATE", str(gate))
    first = start_installer()
    wait_for(tmp_path / "gate.reached", first)
    second = start_installer()
    with gate.open("w"):
        # The first waits on the pipe until it is closed; whoever comes later finds an open gate.
        opened = tmp_path / "opened"
        opened.touch()
        opened.replace(gate)
    assert first.wait(timeout=60) == 0
    before = folder.stat().st_ino
    assert second.wait(timeout=60) == 0
    assert installed(folder)
    assert folder.stat().st_ino == before


def test_a_root_that_is_no_folder_is_said_so(folder: Path) -> None:
    folder.parent.touch()
    with pytest.raises(UsageError, match=r"toy==1\.0 cannot be installed in") as caught:
        zoo.install("toy==1.0")
    assert ROOT_SETTING in caught.value.hint


def test_an_environment_without_setuptools_is_told_so(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "setuptools" else object())
    with pytest.raises(UsageError, match="built from source, which needs setuptools"):
        zoo.install("toy==1.0")
