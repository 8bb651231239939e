"""`pip install gradassay` alone: comparing, posting and showing goldens; what lacks an extra says which."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import served
from builders import Toy
from gradassay.api.auth.scope import Scope
from gradassay.api.ledger.deciding import Decision
from gradassay.goldens.golden import Golden
from gradassay.goldens.layout import Layout
from gradassay.goldens.record import Record
from gradassay.goldens.store.open import open_store
from wheelhouse import CHECKOUT, Home, Ran

pytestmark = pytest.mark.wheel
HINT = re.compile(r"pip install '([^']+)'")
FOR_TESTS = {"dev", "docs"}

LACKING = {
    "record dense-tiny --strategy ddp --dp 2": "torch",
    "record dense-tiny --framework deepspeed==0.19.8 --dp 2": "torch",
    "golden build dense-tiny --out golden.safetensors": "torch",
    "--store dir:kept golden build dense-tiny": "torch",
    "demo": "torch,mlflow",
    "golden list": "mlflow",
    "golden show toy.float32": "mlflow",
    "golden approve toy.float32 1 --reason measured": "mlflow",
    "golden build dense-tiny": "mlflow",
    "diff golden:toy.float32 run.safetensors": "mlflow",
    "diff mlflow:0123 mlflow:4567": "mlflow",
    "--store http://127.0.0.1:9 golden list": "mlflow",
    "serve": "server",
    "gc": "server",
    "token list": "server",
    "token create ci --scope post": "server",
}
"""Commands that need what is not there, and the one extra, or the extras together, that help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """A golden and two records of it, in the folder where commands run."""

    folder: Path
    golden: Path
    healthy: Path
    doubled: Path


@pytest.fixture
def files(
    tmp_path: Path, make_toy: Callable[..., Toy], make_golden: Callable[..., Golden], make_record: Callable[..., Record]
) -> Files:
    toy, layout = make_toy(), Layout(dp=4, ep=2, accum=3)
    made = Files(
        folder=tmp_path,
        golden=tmp_path / "golden.safetensors",
        healthy=tmp_path / "healthy.safetensors",
        doubled=tmp_path / "doubled.safetensors",
    )
    make_golden(toy).write(made.golden)
    make_record(toy, layout=layout).write(made.healthy)
    make_record(toy, layout=layout, weights={"expert": 2.0}).write(made.doubled)
    return made


def test_neither_the_checkout_nor_torch_nor_mlflow_can_be_imported(bare: Home, tmp_path: Path) -> None:
    program = (
        "import gradassay.cli, gradassay.goldens.extras as extras\n"
        "from importlib.util import find_spec\n"
        "print(gradassay.cli.__file__)\n"
        "print([module for module in extras.EXTRAS if find_spec(module)])\n"
    )
    ran = bare.run("python", "-c", program, cwd=tmp_path)
    file, optional = ran.out.splitlines()

    assert Path(file).is_relative_to(bare.packages), ran
    assert optional == "[]"


def test_files_are_compared(bare: Home, files: Files) -> None:
    agree = bare.run("gradassay", "diff", files.golden, files.healthy, cwd=files.folder)
    diverge = bare.run("gradassay", "diff", files.golden, files.doubled, cwd=files.folder)

    assert (agree.code, diverge.code) == (0, 1), agree.err + diverge.err
    assert "w[r,m] = ep" in diverge.out


def test_a_record_is_posted_and_waited_for(bare: Home, files: Files) -> None:
    folder = files.folder / "service"
    folder.mkdir()
    with served.serving(folder, uploads=folder, max_upload_bytes=2**26) as service:
        version = service.parts.ledger.propose(files.golden, who="ada", project="default")
        service.parts.ledger.decide(version.name, 1, Decision.APPROVE, who="ada", why="measured")
        secret = served.mint(service, *Scope)["Authorization"].removeprefix("Bearer ")
        settings = {"GRADASSAY_URL": service.url, "GRADASSAY_TOKEN": secret}
        posted = bare.run("gradassay", "post", files.doubled, "--wait", cwd=files.folder, **settings)
        shown = bare.run("gradassay", "golden", "show", f"golden:{version.name}", cwd=files.folder, **settings)

    assert posted.code == 1, posted.err
    assert "w[r,m] = ep" in posted.out
    assert shown.code == 0, shown.err
    assert version.name in shown.out


def test_goldens_in_a_folder_are_listed_and_shown(bare: Home, files: Files) -> None:
    store = open_store(f"dir:{files.folder / 'kept'}")
    version = store.put_golden(files.golden)

    def asked(*command: str | Path) -> Ran:
        return bare.run("gradassay", "--store", "dir:kept", *command, cwd=files.folder)

    listed, shown = asked("golden", "list"), asked("golden", "show", f"golden:{version.name}@v1")
    compared = asked("diff", f"golden:{version.name}@v1", files.doubled)

    assert (listed.code, shown.code, compared.code) == (0, 0, 1), listed.err + shown.err + compared.err
    assert version.name in listed.out
    assert "unit-mean" in shown.out


@pytest.mark.parametrize("command", LACKING)
def test_what_is_lacking_is_said_by_the_one_installation_that_helps(bare: Home, tmp_path: Path, command: str) -> None:
    ran = bare.run("gradassay", *command.split(), cwd=tmp_path)

    assert ran.code == 2, ran.err
    assert HINT.findall(ran.err) == [f"gradassay[{LACKING[command]}]"]
    assert "Traceback" not in ran.err
    assert "is not installed" in ran.err
    assert list(tmp_path.iterdir()) == []


def test_every_extra_is_asked_for_by_some_command() -> None:
    extras = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]["optional-dependencies"].keys()

    # That of DeepSpeed needs torch to be missed (tests/wheel/test_training.py); what gpu speeds up works without it.
    assert set(LACKING.values()) - {"torch,mlflow"} == extras - FOR_TESTS - {"deepspeed", "gpu"}


def test_without_mlflow_the_default_store_is_no_other_store(bare: Home, tmp_path: Path) -> None:
    ran = bare.run("gradassay", "golden", "list", cwd=tmp_path)

    assert ran.err.splitlines() == [
        "gradassay: this needs mlflow, which is not installed",
        "  pip install 'gradassay[mlflow]'",
        "  or keep goldens in a folder, without MLflow: --store dir:PATH (GRADASSAY_STORE)",
    ]


def test_releases_of_frameworks_are_not_installed_without_what_installs_them(bare: Home, tmp_path: Path) -> None:
    ran = bare.run("python", "-m", "gradassay.harness.zoo", "deepspeed==0.19.8", cwd=tmp_path)

    assert (ran.code, HINT.findall(ran.err)) == (2, ["gradassay[torch]"]), ran.err
