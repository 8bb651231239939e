"""`gradassay ci` in a job of GitHub and of GitLab: a fault, then the mended run, through the action and the template."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from forges.forge_server import Fake
from forges.github_fake import TOKEN as GITHUB_TOKEN
from forges.github_fake import github
from forges.gitlab_fake import TOKEN as GITLAB_TOKEN
from forges.gitlab_fake import gitlab
from forges.scripts import Sandbox, action_step, inherited, template_job
from gradassay.goldens.store.open import open_store
from gradassay.harness.build import build_golden
from gradassay.harness.launch import Pool
from gradassay.harness.matrix import parse_matrix

pytestmark = pytest.mark.dist

HEALTHY = '[[matrix]]\nproblems = "dense-tiny"\nstrategies = "ddp"\nlayouts = ["dp2"]\n'
FAULTY = f'{HEALTHY}\n{HEALTHY}faults = "uniform:scale=dp"\n'
REFERENCES = '[[matrix]]\nstrategies = ["ddp", "fsdp2"]\ndp = 2\n'


@pytest.fixture(scope="module")
def goldens(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store with an approved golden of dense-tiny."""
    folder = tmp_path_factory.mktemp("goldens")
    cells = parse_matrix(REFERENCES, Path("references.toml"), defaults={"problems": "dense-tiny"}).cells
    with Pool() as pool:
        made = build_golden("dense-tiny", "float32", cells, pool=pool, folder=folder)
    made.write(folder / "golden.safetensors")
    store = open_store(f"dir:{folder / 'store'}")
    version = store.put_golden(folder / "golden.safetensors")
    store.approve(version.name, version.version, who="ada", why="measured")
    return f"dir:{folder / 'store'}"


def sandbox(folder: Path, text: str) -> Sandbox:
    """A repository with this matrix, and gradassay itself."""
    (folder / ".git").mkdir(exist_ok=True)
    (folder / "matrix.toml").write_text(text)
    made = Sandbox(folder)
    made.use_real()
    return made


def only_comment(fake: Fake) -> str:
    (comment,) = fake.comments
    return str(comment["body"])


@pytest.mark.slow
def test_the_action_comments_a_fault_and_takes_it_back(goldens: str, tmp_path: Path) -> None:
    given = {"golden-store": goldens, "args": "--deadline=200"}
    box = sandbox(tmp_path, FAULTY)
    with github() as hub:
        contexts = inherited(**hub.environ(GITHUB_STEP_SUMMARY=str(tmp_path / "step.md")))
        contexts["github.token"] = contexts.pop("GITHUB_TOKEN")
        done = action_step(box, "Record, compare and report", given=given, contexts=contexts)
        said = only_comment(hub)
        (tmp_path / "matrix.toml").write_text(HEALTHY)
        mended = action_step(box, "Record, compare and report", given=given, contexts=contexts)
        corrected = only_comment(hub)

    assert done.code == 1, done.log
    assert done.outputs == {"verdict": "diverge", "exit-code": "1", "report": "gradassay-ci"}
    (annotation,) = [line for line in done.log.splitlines() if line.startswith("::error ")]
    assert annotation.startswith("::error file=matrix.toml,line=9,title=diverge%3A dense-tiny ddp dp2")
    assert "Gradients diverge in 1 of 2 cells" in said
    assert "dp" in said.split("<code>")[1]
    assert said.split("\n", 1)[1] in (tmp_path / "step.md").read_text()
    assert (tmp_path / "gradassay-ci" / "junit.xml").exists()
    assert GITHUB_TOKEN not in done.log
    assert (mended.code, mended.outputs["verdict"]) == (0, "agree"), mended.log
    assert "Gradients agree with their goldens: 1 cell" in corrected
    assert corrected.split("\n", 1)[0] == said.split("\n", 1)[0]


@pytest.mark.slow
def test_the_template_writes_a_note_and_the_reports(goldens: str, tmp_path: Path) -> None:
    box = sandbox(tmp_path, FAULTY)
    with gitlab() as lab:
        variables = inherited(**lab.environ(), GRADASSAY_STORE=goldens)
        done = template_job(box, "script", variables, shell="sh")
        said = only_comment(lab)

    assert done.code == 1, done.log
    assert "Gradients diverge in 1 of 2 cells" in said
    (issue,) = json.loads((tmp_path / "gradassay-ci" / "gl-code-quality-report.json").read_text())
    assert issue["location"] == {"path": "matrix.toml", "lines": {"begin": 9}}
    assert (tmp_path / "gradassay-ci" / "junit.xml").exists()
    assert "::error" not in done.log
    assert GITLAB_TOKEN not in done.log
