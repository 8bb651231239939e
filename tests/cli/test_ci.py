"""`gradassay ci` against a running service and against a folder: every exit code as people meet it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import pytest
import structlog

from gradassay.api.auth.scope import Scope
from gradassay.goldens.container import digest_of_file
from gradassay.goldens.store.directory import DirectoryStore
from gradassay.harness.launch import Pool
from gradassay.harness.matrix import parse_matrix
from scripted import free_port
from served import Service, mint, serving

if TYPE_CHECKING:
    from conftest import Ran

Command = Callable[..., "Ran"]
pytestmark = pytest.mark.dist

HEALTHY = '[[matrix]]\nproblems = "dense-tiny"\nstrategies = "ddp"\nlayouts = ["dp2"]\n'
REFERENCES = '[[matrix]]\nstrategies = ["ddp", "fsdp2"]\ndp = 2\n'
FAULTY = f'{HEALTHY}\n{HEALTHY}faults = "uniform:scale=dp"\n'
BROKEN = """
import os
import signal

from gradassay.harness import load_problem


class Broken:
    def __getattr__(self, name):
        if name == "batch" and os.environ["RANK"] == "1":
            os.kill(os.getpid(), signal.SIGKILL)
        return getattr(load_problem("dense-tiny"), name)


def problem():
    return Broken()
"""


REVISED = """
from gradassay.harness import load_problem


class Revised:
    def __getattr__(self, name):
        return f"sha256:{'1' * 64}" if name == "digest" else getattr(load_problem("dense-tiny"), name)


def problem():
    return Revised()
"""
CLIPPED = 'capture = { stages = ["clipped"], max_norm = 1.0 }\n'


@dataclass(frozen=True, slots=True, kw_only=True)
class Team:
    """A running service with an approved golden of dense-tiny in float32; variables: how a job reaches it."""

    service: Service
    golden: Path
    variables: Mapping[str, str]

    def runs(self) -> list[str]:
        """Digests of the runs that it has."""
        return [run["digest"] for run in self.service.client.get("/api/v1/runs").json()["items"]]


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A golden of dense-tiny."""
    from gradassay.harness.build import build_golden

    folder = tmp_path_factory.mktemp("golden")
    defaults = {"problems": "dense-tiny"}
    cells = parse_matrix(REFERENCES, Path("references.toml"), defaults=defaults).cells
    with Pool() as pool:
        made = build_golden("dense-tiny", "float32", cells, pool=pool, folder=folder)
    made.write(folder / "golden")
    return folder / "golden"


@pytest.fixture(scope="module")
def team(golden: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    folder = tmp_path_factory.mktemp("team")
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory(), processors=[])
    with serving(folder, uploads=folder, max_upload_bytes=2**26) as service:
        post = "/api/v1/goldens/dense-tiny.float32"
        service.client.post(f"{post}/versions", content=golden.read_bytes()).raise_for_status()
        approval = {"version": 1, "expected_version": 0, "why": "measured"}
        service.client.put(f"{post}/channels/approved", json=approval).raise_for_status()
        token = mint(service, Scope.POST)["Authorization"].removeprefix("Bearer ")
        yield Team(service=service, golden=golden, variables={"GRADASSAY_URL": service.url, "GRADASSAY_TOKEN": token})
    structlog.reset_defaults()


def matrix(folder: Path, text: str) -> Path:
    path = folder / "matrix.toml"
    path.write_text(text)
    return path


def cases(folder: Path) -> dict[str, str]:
    """What became of each case of the JUnit report: passed, failure, error or skipped."""
    found = {}
    for case in ElementTree.parse(folder / "junit.xml").iter("testcase"):
        problems = [child.tag for child in case if child.tag != "properties"]
        found[case.get("name", "")] = problems[0] if problems else "passed"
    return found


@pytest.mark.slow
def test_agreement_is_0(gradassay: Command, team: Team, tmp_path: Path) -> None:
    ran = gradassay("ci", "--matrix", matrix(tmp_path, HEALTHY), variables=team.variables)

    assert ran.code == 0, ran.err
    assert ran.out.startswith("✓ agree  dense-tiny ddp dp2 float32  http://")
    folder = tmp_path / "gradassay-ci"
    assert cases(folder) == {"dense-tiny ddp dp2 float32": "passed"}
    assert "agree with their goldens: 1 cell" in (folder / "summary.md").read_text()
    (record,) = folder.glob("*.safetensors")
    assert digest_of_file(record) in team.runs()


def test_divergence_is_1_and_marks_the_line_of_the_matrix(gradassay: Command, team: Team, tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    arguments = ["--junit", "reports/junit.xml", "--summary", "reports/summary.md", "--out", "out"]
    github = {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(tmp_path / "step.md")}

    ran = gradassay("ci", "--matrix", matrix(tmp_path, FAULTY), *arguments, variables=team.variables | github)

    assert ran.code == 1, ran.err
    assert "w[r,m] = dp" in ran.out
    assert "✓ agree  dense-tiny ddp dp2 float32  " in ran.out
    assert "✗ diverge  dense-tiny ddp dp2 float32 uniform:scale=dp  w[r,m] = dp  http://" in ran.out
    (annotation,) = [line for line in ran.out.splitlines() if line.startswith("::error ")]
    assert annotation.startswith("::error file=matrix.toml,line=9,title=diverge%3A dense-tiny ddp dp2")
    assert sorted(cases(tmp_path / "out").values()) == ["failure", "passed"]
    assert sorted(cases(tmp_path / "reports").values()) == ["failure", "passed"]
    summary = (tmp_path / "reports" / "summary.md").read_text()
    assert "Gradients diverge in 1 of 2 cells" in summary
    assert "Gradients diverge in 1 of 2 cells" in (tmp_path / "step.md").read_text()


def test_no_golden_is_3_with_the_commands_that_make_one(gradassay: Command, team: Team, tmp_path: Path) -> None:
    text = HEALTHY + 'dtypes = ["float32", "bfloat16"]\n'
    ran = gradassay("ci", "--matrix", matrix(tmp_path, text), "--json", variables=team.variables)

    assert ran.code == 3, ran.err
    document = json.loads(ran.out)
    agreed, lacking = document["cells"]
    assert (document["exit"], agreed["exit"], lacking["exit"]) == (3, 0, 3)
    assert lacking["verdict"] == "failed"
    build = f"gradassay golden build dense-tiny --dtype bfloat16 --url {team.service.url}"
    approve = "gradassay golden approve dense-tiny.bfloat16 VERSION --reason WHY"
    for text in (lacking["hint"], ran.err):
        assert build in text
        assert approve in text
    assert sorted(cases(tmp_path / "gradassay-ci").values()) == ["error", "passed"]
    assert "golden build dense-tiny" in (tmp_path / "gradassay-ci" / "summary.md").read_text()


def test_a_rank_that_dies_is_4_and_the_others_are_judged(gradassay: Command, team: Team, tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text(BROKEN)
    text = HEALTHY.replace('"dense-tiny"', '["dense-tiny", "broken:problem"]')
    path = {"PYTHONPATH": str(tmp_path)}

    ran = gradassay("ci", "--matrix", matrix(tmp_path, text), variables=team.variables | path)

    assert ran.code == 4, ran.err
    assert "✓ agree  dense-tiny ddp" in ran.out
    assert "rank 1: " in ran.err
    assert "SIGKILL" in ran.err
    assert sorted(cases(tmp_path / "gradassay-ci").values()) == ["error", "passed"]


@pytest.mark.slow
def test_another_revision_and_too_little_captured_are_5(gradassay: Command, team: Team, tmp_path: Path) -> None:
    """A job that is pinned to v1 after the problem was revised; and one that keeps only what was clipped."""
    (tmp_path / "revised.py").write_text(REVISED)
    text = HEALTHY.replace("dense-tiny", "revised:problem") + HEALTHY + CLIPPED
    path = {"PYTHONPATH": str(tmp_path)}

    ran = gradassay("ci", "--matrix", matrix(tmp_path, text), "--against", "v1", variables=team.variables | path)

    assert ran.code == 5, ran.err
    said = " ".join(ran.out.split())
    assert "the record is of problem dense-tiny (sha256:1111" in said
    assert "clipped.1: the record does not say which update was made" in said
    assert list(cases(tmp_path / "gradassay-ci").values()) == ["error", "error"]


@pytest.mark.slow
def test_a_token_that_is_not_taken_is_10_and_the_records_are_kept(
    gradassay: Command, team: Team, tmp_path: Path
) -> None:
    expired = {"GRADASSAY_TOKEN": "gat_unknown"}
    ran = gradassay("ci", "--matrix", matrix(tmp_path, HEALTHY), variables=dict(team.variables) | expired)

    assert (ran.code, "gat_unknown" in ran.out + ran.err) == (10, False)
    assert "GRADASSAY_TOKEN" in ran.err
    assert "gradassay post gradassay-ci sends them later" in ran.err
    assert not (tmp_path / "spool").exists()
    assert len(list((tmp_path / "gradassay-ci").glob("*.safetensors"))) == 1
    assert gradassay("post", "gradassay-ci", "--wait", variables=team.variables).code == 0


def test_a_service_that_is_down_is_11_and_what_was_recorded_is_sent_once_it_is_back(
    gradassay: Command, tmp_path: Path
) -> None:
    port = free_port()
    variables = {"GRADASSAY_URL": f"http://127.0.0.1:{port}", "GRADASSAY_RETRY_S": "0"}
    ran = gradassay("ci", "--matrix", matrix(tmp_path, HEALTHY), variables=variables)

    assert (ran.code, ran.out) == (11, "? failed  dense-tiny ddp dp2 float32\n")
    assert "this passes: repeat the job" in ran.err
    assert "gradassay post --spooled" in ran.err
    assert "can be repeated" in (tmp_path / "gradassay-ci" / "summary.md").read_text()
    assert list(cases(tmp_path / "gradassay-ci").values()) == ["error"]
    (record,) = (tmp_path / "gradassay-ci").glob("*.safetensors")
    folder = tmp_path / "service"
    folder.mkdir()
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory(), processors=[])
    with serving(folder, uploads=folder, on_port=port, max_upload_bytes=2**26) as service:
        token = mint(service, Scope.POST)["Authorization"].removeprefix("Bearer ")
        sent = gradassay("post", "--spooled", variables=variables | {"GRADASSAY_TOKEN": token})
        again = gradassay("post", "gradassay-ci", variables=variables | {"GRADASSAY_TOKEN": token})
        runs = service.client.get("/api/v1/runs").json()["items"]
    structlog.reset_defaults()
    assert (sent.code, again.code) == (0, 0)
    assert "was there already" in again.err
    assert [run["digest"] for run in runs] == [digest_of_file(record)]


@pytest.mark.slow
def test_against_a_folder_without_any_service_and_posted_later(gradassay: Command, team: Team, tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path / "goldens")
    store.put_golden(team.golden)
    store.approve("dense-tiny.float32", 1, who="ada", why="measured")
    ran = gradassay("ci", "--matrix", matrix(tmp_path, HEALTHY), "--golden-store", "dir:goldens", "--out", "out")

    assert (ran.code, ran.out) == (0, "✓ agree  dense-tiny ddp dp2 float32\n"), ran.err
    assert list(cases(tmp_path / "out").values()) == ["passed"]
    before = len(team.runs())
    posted = gradassay("post", "out", variables=team.variables)
    assert (posted.code, len(team.runs()) - before) == (0, 1)


def test_a_mistake_in_the_matrix_is_2_at_its_line(inside: Command, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    ran = inside("ci", "--matrix", matrix(tmp_path, HEALTHY.replace('"ddp"', '"dpd"')))

    assert ran.code == 2
    assert "did you mean 'ddp'?" in ran.err
    assert "line=3,title=failed" in ran.out
    assert list(cases(tmp_path / "gradassay-ci").values()) == ["error"]


def test_a_matrix_that_is_not_there_is_2_and_reported(inside: Command, tmp_path: Path) -> None:
    ran = inside("ci", "--matrix", "none.toml")

    assert (ran.code, ran.out) == (2, "")
    assert "none.toml" in ran.err
    assert cases(tmp_path / "gradassay-ci") == {"job": "error"}
    assert "set up wrongly" in (tmp_path / "gradassay-ci" / "summary.md").read_text()


def test_reports_that_cannot_be_written_are_no_pass(inside: Command, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    ran = inside("ci", "--matrix", "none.toml", "--out", "taken")
    assert (ran.code, "taken" in ran.err) == (2, True)
