"""Everything that a job leaves behind, and that nothing of it changes what the job came to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from forges.forge_server import Reply
from forges.github_fake import TOKEN, GithubFake, event, github
from forges.gitlab_fake import gitlab
from forges.results import agrees, diverges, result
from gradassay.forges.comment import marker
from gradassay.forges.detect import detect
from gradassay.forges.outcome import CiResult
from gradassay.forges.telling import tell
from gradassay.goldens.errors import StoreError

KEY = "tests/gradients/matrix.toml"


def told(
    job: CiResult, environ: dict[str, str], folder: Path, *, comment: bool = True, **more: Any
) -> tuple[tuple[str, ...], list[str]]:
    """The notes, and the lines for the runner."""
    lines: list[str] = []
    notes = tell(
        job, detect(environ), folder, comment=comment, retry_s=0.0, emit=lines.append, say=lambda _text: None, **more
    )
    return notes, lines


def places(folder: Path) -> dict[str, str]:
    """The files of a step on GitHub."""
    return {"GITHUB_STEP_SUMMARY": str(folder / "step.md"), "GITHUB_OUTPUT": str(folder / "outputs")}


def test_on_github_all_is_left(tmp_path: Path) -> None:
    with github() as hub:
        notes, lines = told(result(agrees(), diverges()), hub.environ(**places(tmp_path)), tmp_path / "report")

    assert notes == ()
    assert [line.split(" ")[0] for line in lines] == ["::error"]
    step = (tmp_path / "step.md").read_text()
    assert "Gradients diverge in 1 of 2 cells" in step
    assert f"[job](<{hub.url}/our-org/trainer/actions/runs/11>)" in step
    assert (tmp_path / "outputs").read_text() == "verdict=diverge\nexit-code=1\n"
    (comment,) = hub.comments
    assert comment["body"] == f"{marker(KEY)}\n{step}"
    assert sorted(path.name for path in (tmp_path / "report").iterdir()) == ["junit.xml", "summary.md"]


def test_on_gitlab_all_is_left(tmp_path: Path) -> None:
    with gitlab() as lab:
        notes, lines = told(result(diverges()), lab.environ(), tmp_path)

    assert (notes, lines) == ((), [])
    (note,) = lab.comments
    assert note["body"].startswith(marker("gradients/matrix.toml"))
    assert len(json.loads((tmp_path / "gl-code-quality-report.json").read_text())) == 1
    assert (tmp_path / "junit.xml").exists()


def test_elsewhere_the_folder_is_written(tmp_path: Path) -> None:
    notes, lines = told(result(diverges()), {}, tmp_path, comment=False)
    assert (notes, lines) == ((), [])
    assert "Gradients diverge in 1 of 1 cell" in (tmp_path / "summary.md").read_text()


def test_a_skipped_job_updates_a_comment_but_makes_none(tmp_path: Path) -> None:
    skipped = result(skipped="nothing relevant changed")
    with github() as hub:
        told(skipped, hub.environ(**places(tmp_path)), tmp_path)
        assert hub.comments == []
        told(result(diverges()), hub.environ(), tmp_path)
        told(skipped, hub.environ(), tmp_path)
        assert "nothing relevant changed" in hub.comments[0]["body"]
    assert (tmp_path / "outputs").read_text() == "verdict=skipped\nexit-code=0\n"


def test_a_fork_is_a_note_everywhere_but_in_the_comment(tmp_path: Path) -> None:
    file = tmp_path / "event.json"
    file.write_text(event(head="eve/trainer"))
    with github() as hub:
        hub.read_only = True
        environ = hub.environ(GITHUB_EVENT_PATH=str(file), **places(tmp_path))
        notes, lines = told(result(agrees()), environ, tmp_path)

    (note,) = notes
    assert "no comment" in note
    assert "403" in note
    assert "fork" in note
    assert TOKEN not in note
    assert lines == [f"::warning title=gradassay::{note}"]
    assert "no comment" in (tmp_path / "step.md").read_text()
    assert (tmp_path / "outputs").read_text() == "verdict=agree\nexit-code=0\n"


@pytest.mark.parametrize(
    "failure", [Reply(status=503), Reply(status=500, body=b"oops"), Reply.of({"message": "no"}, 401)]
)
def test_a_forge_that_fails_is_a_note(tmp_path: Path, failure: Reply) -> None:
    with github() as hub:
        hub.failures = {"GET": [failure]}
        (note,), _ = told(result(agrees()), hub.environ(), tmp_path)
    assert note.startswith("no comment: ")
    assert str(failure.status) in note


def test_what_is_missing_for_a_comment_is_said(tmp_path: Path) -> None:
    def notes(environ: dict[str, str]) -> tuple[str, ...]:
        return told(result(agrees()), environ, tmp_path)[0]

    fake = GithubFake()
    fake.url = "http://127.0.0.1:1"
    assert notes({}) == ("no comment: this is neither GitHub Actions nor GitLab CI",)
    assert notes(fake.environ(GITHUB_TOKEN="")) == ("no comment: GITHUB_TOKEN is not set",)
    assert notes(fake.environ(GITHUB_REF="refs/heads/main")) == ()


def test_annotations_without_a_place_are_counted_in_the_summary(tmp_path: Path) -> None:
    with github() as hub:
        job = result(*(diverges(f"c{number}") for number in range(13)))
        notes, lines = told(job, hub.environ(**places(tmp_path)), tmp_path)

    assert notes == ("3 more annotations: GitHub shows 10 a step",)
    assert len(lines) == 11
    assert notes[0] in (tmp_path / "step.md").read_text()
    assert notes[0] in hub.comments[0]["body"]


def test_commands_of_one_step_share_the_limit_of_its_summary(tmp_path: Path) -> None:
    step = tmp_path / "step.md"
    step.write_text("é" * 500_000)
    job = result(*(diverges(f"cell-{number}") for number in range(2_000)))
    environ = GithubFake().environ(**places(tmp_path))

    told(job, environ, tmp_path, comment=False)
    size = step.stat().st_size
    assert 1_040_000 < size <= 1 << 20
    assert "had no room here" in step.read_text()
    notes, _ = told(job, environ, tmp_path, comment=False)
    assert step.stat().st_size <= 1 << 20
    assert notes[1:] == () or "no step summary" in notes[1]


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError):
        told(result(agrees()), {}, tmp_path / "file", comment=False)
