"""`gradassay ci --paths`: what counts as a relevant change, and when the job is never skipped."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest

from gradassay.cli.integration.relevance import relevance

if TYPE_CHECKING:
    from conftest import Ran

Command = Callable[..., "Ran"]
MATRIX = '[[matrix]]\nproblems = "dense-tiny"\nstrategies = "ddp"\nlayouts = ["dp2"]\n'


class Repository:
    """A repository on a branch that left `main` at its first commit."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.git("init", "--quiet", "--initial-branch=main")
        self.matrix = self.write("gradients/matrix.toml", MATRIX)
        self.commit("docs/readme.md", "src/step.py", "src/deep/er/step.py", "step.py")
        self.git("checkout", "--quiet", "-b", "change")

    def git(self, *arguments: str) -> None:
        """Runs git, whoever's settings there are."""
        named = {
            f"GIT_{who}_{what}": "ada@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
        }
        environment = os.environ | named | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
        subprocess.run(["git", *arguments], cwd=self.folder, env=environment, check=True, capture_output=True)

    def write(self, name: str, text: str) -> Path:
        """A file of the working tree."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            file.write(text)
        return path

    def commit(self, *names: str) -> None:
        """A commit that changes these files."""
        for name in names:
            self.write(name, f"# changed {name}\n")
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "change")


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    made = Repository(tmp_path / "repository")
    monkeypatch.chdir(made.folder)
    return made


def test_nothing_relevant_changed(repository: Repository) -> None:
    repository.commit("docs/readme.md", "step.py")

    found = relevance(["src/**", "kernels/**"], "main", repository.matrix)

    assert found.skip
    assert found.reason == "nothing relevant changed (2 files changed since main, none matches src/**, kernels/**)"


@pytest.mark.parametrize(
    ("path", "changed"),
    [
        ("src/**", "src/step.py"),
        ("src/**", "src/deep/er/step.py"),
        ("src", "src/deep/er/step.py"),
        ("**/step.py", "step.py"),
        ("**/step.py", "src/deep/er/step.py"),
        ("src/*/er/*.py", "src/deep/er/step.py"),
    ],
)
def test_a_file_that_matches_runs_the_job(repository: Repository, path: str, changed: str) -> None:
    repository.commit(changed)
    found = relevance(["nothing/**", path], "main", repository.matrix)
    assert (found.skip, found.reason) == (False, f"not skipped: {changed} changed since main")


@pytest.mark.parametrize(("path", "changed"), [("src/*.py", "src/deep/er/step.py"), ("*.py", "src/step.py")])
def test_a_star_stays_in_its_folder(repository: Repository, path: str, changed: str) -> None:
    repository.commit(changed)
    assert relevance([path], "main", repository.matrix).skip


def test_the_matrix_file_is_always_relevant(repository: Repository) -> None:
    repository.commit("gradients/matrix.toml")
    found = relevance(["src/**"], "main", repository.matrix)
    assert (found.skip, "gradients/matrix.toml changed" in found.reason) == (False, True)


def test_from_a_folder_of_the_repository_patterns_are_of_its_root(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.commit("src/step.py")
    monkeypatch.chdir(repository.folder / "gradients")
    assert not relevance(["src/**"], "main", Path("matrix.toml")).skip
    repository.commit("gradients/matrix.toml")
    assert "gradients/matrix.toml" in relevance(["docs/**"], "main", Path("matrix.toml")).reason


def test_what_went_on_at_the_base_is_no_change_of_ours(repository: Repository) -> None:
    repository.commit("docs/readme.md")
    repository.git("checkout", "--quiet", "main")
    repository.commit("src/step.py")
    repository.git("checkout", "--quiet", "change")
    assert relevance(["src/**"], "main", repository.matrix).skip


def test_a_file_that_moved_away_and_one_that_is_not_committed_count(repository: Repository) -> None:
    repository.git("mv", "src/step.py", "docs/step.py")
    repository.git("commit", "--quiet", "--message", "moved")
    assert not relevance(["src/*"], "main", repository.matrix).skip
    assert relevance(["src/deep/**"], "main", repository.matrix).skip
    repository.write("src/deep/er/step.py", "# not committed\n")
    assert not relevance(["src/deep/**"], "main", repository.matrix).skip


@pytest.mark.parametrize(
    ("base", "says"),
    [("", "--base names no commit"), ("origin/main", "origin/main is no commit of this clone"), ("0" * 40, "fetch it")],
)
def test_an_unknown_base_skips_nothing(repository: Repository, base: str, says: str) -> None:
    repository.commit("docs/readme.md")
    found = relevance(["src/**"], base, repository.matrix)
    assert not found.skip
    assert found.reason.startswith("not skipped: ")
    assert says in found.reason


def test_a_base_is_no_option_of_git(repository: Repository) -> None:
    assert "is no commit" in relevance(["src/**"], "--output=stolen", repository.matrix).reason
    assert not (repository.folder / "stolen").exists()


def test_a_shallow_clone_skips_nothing(repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository.git("checkout", "--quiet", "main")
    repository.commit("docs/readme.md")
    repository.git("checkout", "--quiet", "change")
    repository.commit("docs/readme.md")
    repository.commit("docs/readme.md")
    repository.git(
        "clone", "--quiet", "--depth=1", "--no-single-branch", f"file://{repository.folder}", str(tmp_path / "shallow")
    )
    monkeypatch.chdir(tmp_path / "shallow")

    found = relevance(["src/**"], "origin/main", tmp_path / "shallow" / "gradients" / "matrix.toml")

    assert (found.skip, "does not reach back" in found.reason) == (False, True)


def test_without_a_repository_or_without_git_nothing_is_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, repository: Repository
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "git cannot be run" in relevance(["src/**"], "main", repository.matrix).reason
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    found = relevance(["src/**"], "main", repository.matrix)
    assert (found.skip, "git rev-parse" in found.reason) == (False, True)


def test_a_skipped_job_says_so_everywhere(gradassay: Command, repository: Repository, tmp_path: Path) -> None:
    repository.commit("docs/readme.md")
    arguments = ["ci", "--matrix", repository.matrix, "--paths", "src/**", "--base", "main", "--out", tmp_path / "out"]
    git = {"GIT_DIR": str(repository.folder / ".git"), "GIT_WORK_TREE": str(repository.folder)}

    ran = gradassay(*arguments, variables=git)

    said = "nothing relevant changed (1 file changed since main, none matches src/**)"
    assert (ran.code, ran.out, ran.err) == (0, "", f"skipped: {said}\n")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["junit.xml", "summary.md"]
    assert "nothing relevant changed" in (tmp_path / "out" / "summary.md").read_text()
    (case,) = ElementTree.parse(tmp_path / "out" / "junit.xml").iter("testcase")
    skipped = case.find("skipped")
    assert skipped is not None
    assert skipped.get("message") == said
