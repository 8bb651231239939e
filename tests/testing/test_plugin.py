"""The plugin as others use it: a project's own pytest over real ranks."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from projects import Project, Ran

DEADLINE_S = 120.0

SUITE = """
import pytest

from gradassay.harness.cell import Cell
from gradassay.harness import Layout


@pytest.mark.gradassay(problem="moe-tiny", strategy="ddp", layouts=["dp2.accum2"])
def test_ddp():
    pass


@pytest.mark.gradassay(problem="moe-tiny", strategy="fsdp2", golden="approved", layouts=["dp2.ep2", "dp2"])
def test_fsdp2(gradassay):
    assert gradassay.assay.exit == 0
    assert gradassay.record.header.strategy == "fsdp2"


@pytest.mark.gradassay(problem="moe-tiny", strategy="ddp", layouts="dp2.ep2.accum2", fault="uniform:expert:scale=ep")
def test_faulty():
    raise SystemExit("the body runs only where the cell agrees")


@pytest.mark.gradassay(matrix="matrix.toml", golden="v1")
def test_matrix():
    pass


@pytest.mark.gradassay(problem="broken:problem", strategy="ddp", layouts=["dp2"], golden="moe-tiny.float32@v1")
def test_broken():
    pass


def test_own(gradassay, tmp_path):
    record = gradassay.run(problem="moe-tiny", strategy="ddp", layout="dp2.accum2")
    again = gradassay.run(Cell(problem="moe-tiny", strategy="ddp", layout=Layout(dp=2, accum=2)))
    assert again.header == record.header
    assert gradassay.assert_agrees(record).exit == 0
    record.write(tmp_path / "mine.safetensors")
    gradassay.assert_agrees(tmp_path / "mine.safetensors", golden="golden.safetensors")


def test_own_faulty(gradassay, tmp_path):
    record = gradassay.run(problem="moe-tiny", strategy="ddp", layout="dp2.accum2", fault="last-only")
    record.write(tmp_path / "mine.safetensors")
    gradassay.assert_agrees(str(tmp_path / "mine.safetensors"), golden="moe-tiny.float32@approved")
"""
MATRIX = """
[[matrix]]
problems = "moe-tiny"
strategies = "fsdp2"
dp = [2, 3]
ep = 2
"""
BROKEN = """
from gradassay.harness import load_problem


def problem():
    class Broken:
        def __getattr__(self, name):
            if name == "batch":
                print("the disk is gone")
                raise RuntimeError("the data are lost")
            return getattr(load_problem("moe-tiny"), name)

    return Broken()
"""
OUTCOMES = {
    "test_ddp[ddp-dp2.accum2]": "passed",
    "test_fsdp2[fsdp2-dp2.ep2]": "passed",
    "test_fsdp2[fsdp2-dp2]": "passed",
    "test_faulty[ddp-dp2.ep2.accum2-uniform:expert:scale=ep]": "failure",
    "test_matrix[fsdp2-dp2.ep2]": "passed",
    "test_broken[ddp-dp2]": "error",
    "test_own": "passed",
    "test_own_faulty": "failure",
}
FAULTY = "test_faulty[ddp-dp2.ep2.accum2-uniform:expert:scale=ep]"


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory, golden_file: Path) -> Project:
    """A project of a dozen comparisons."""
    folder = tmp_path_factory.mktemp("suite")
    (folder / "golden.safetensors").write_bytes(golden_file.read_bytes())
    return Project(folder=folder).write(test_gradients=SUITE, matrix__toml=MATRIX, broken=BROKEN)


@pytest.fixture(scope="module")
def serial(suite: Project, golden_store: Path) -> Ran:
    """Its session in one process."""
    return suite.run("--golden-store", golden_store, "--golden-report", "report", "-v")


@pytest.mark.dist
def test_healthy_cells_pass_and_all_else_does_not(serial: Ran) -> None:
    assert serial.outcomes == OUTCOMES
    assert serial.code == 1


@pytest.mark.dist
def test_the_header_says_what_the_session_runs_on(serial: Ran, golden_store: Path) -> None:
    assert f"gradassay: store {golden_store}, channel approved, device cpu" in serial.out
    assert "backend gloo" in serial.out


@pytest.mark.dist
def test_combinations_that_cannot_exist_are_told(serial: Ran) -> None:
    assert "left out, 1 times: matrix.toml: ep or replicate does not divide dp" in serial.out


@pytest.mark.dist
def test_a_failure_is_the_law_then_the_families_then_the_weights_then_the_command(serial: Ran) -> None:
    text = serial.cases[FAULTY].text
    places = [
        text.index(part)
        for part in (
            "expert parameters are too large by a factor of ep = 2",
            "family   parameters",
            "weights by data-parallel rank",
            "reproduce it outside pytest",
            "gradassay record moe-tiny",
        )
    ]
    assert places == sorted(places)
    assert "Traceback" not in text
    assert ".py:" not in text


@pytest.mark.dist
def test_the_command_reproduces_the_failure(serial: Ran, suite: Project, tmp_path: Path) -> None:
    command = serial.cases[FAULTY].text.split("reproduce it outside pytest:")[1].strip()
    done = subprocess.run(
        ["bash", "-c", command], cwd=tmp_path, env=suite.environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done.stderr
    assert "are too large by a factor of ep = 2" in done.stdout


@pytest.mark.dist
def test_the_command_for_a_record_of_ones_own_reproduces_it(serial: Ran, suite: Project, tmp_path: Path) -> None:
    text = serial.cases["test_own_faulty"].text
    assert "keep only the last micro-batch" in text
    command = text.split("reproduce it outside pytest:")[1].strip()
    done = subprocess.run(
        ["bash", "-c", command], cwd=tmp_path, env=suite.environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done.stderr


@pytest.mark.dist
def test_a_cell_that_crashed_is_an_error_with_its_ranks_own_traceback(serial: Ran) -> None:
    text = serial.cases["test_broken[ddp-dp2]"].text
    assert "RuntimeError: the data are lost" in text
    assert "broken.py" in text
    assert "the disk is gone" in text
    assert "During handling" not in text


@pytest.mark.dist
def test_every_test_has_its_figures_as_properties(serial: Ran) -> None:
    faulty = serial.cases[FAULTY].properties
    assert (faulty["verdict"], faulty["exit"], faulty["law"]) == ("diverge", "1", "w[r,m] = ep")
    assert re.fullmatch(r"sha256:[0-9a-f]{64}", faulty["record"])
    assert faulty["golden"] == "golden:moe-tiny.float32@approved"
    healthy = serial.cases["test_matrix[fsdp2-dp2.ep2]"].properties
    assert (healthy["verdict"], healthy["exit"], healthy["golden"]) == ("agree", "0", "golden:moe-tiny.float32@v1")
    assert serial.cases["test_broken[ddp-dp2]"].properties["exit"] == "4"


@pytest.mark.dist
def test_a_cell_is_run_once_and_its_record_is_below_the_report(serial: Ran, suite: Project) -> None:
    records = sorted(path.name for path in (suite.folder / "report" / "records").iterdir())
    assert records.count("moe-tiny_ddp_dp2.accum2_float32.safetensors") == 1
    assert (
        serial.cases["test_fsdp2[fsdp2-dp2.ep2]"].properties["record"]
        == serial.cases["test_matrix[fsdp2-dp2.ep2]"].properties["record"]
    ), "a second run of the cell would have another date"
    document = json.loads((suite.folder / "report" / "report.json").read_text())
    tests = {part["test"].partition("::")[2] for part in document["tests"]}
    assert tests == set(OUTCOMES)
    assert all(
        (suite.folder / "report" / "records" / part["record"]).exists() for part in document["tests"] if part["record"]
    )


@pytest.mark.dist
@pytest.mark.slow
def test_two_workers_come_to_the_same(suite: Project, golden_store: Path, serial: Ran) -> None:
    ran = suite.run("--golden-store", golden_store, "--golden-report", "report2", "-n", "2")

    assert ran.outcomes == OUTCOMES
    assert ran.code == 1
    for name, case in ran.cases.items():
        for key in ("verdict", "exit", "law", "golden"):
            assert case.properties.get(key) == serial.cases[name].properties.get(key), (name, key)
    document = json.loads((suite.folder / "report2" / "report.json").read_text())
    assert {part["test"].partition("::")[2] for part in document["tests"]} == set(OUTCOMES)
    assert not [path.name for path in (suite.folder / "report2" / "records").iterdir() if path.name.startswith(".")]
