"""The action, the template and their examples by the schemas of GitHub and GitLab, and by what they lean on."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
GITHUB = ROOT / "ci" / "github"
GITLAB = ROOT / "ci" / "gitlab"


def check(schema: str, file: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, str(file)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def read(file: Path) -> Any:
    return yaml.safe_load(file.read_text(encoding="utf-8"))


def blocks(page: str) -> list[str]:
    """The YAML of a page of the documentation."""
    return re.findall(r"```yaml\n(.*?)```", (ROOT / "docs" / page).read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize(
    ("schema", "file", "broken"),
    [
        ("vendor.github-actions", GITHUB / "action.yml", ("using: composite", "using: composit")),
        ("vendor.github-workflows", GITHUB / "example.yml", ("runs-on: ubuntu-latest", "run-on: ubuntu-latest")),
        ("vendor.gitlab-ci", GITLAB / "gradassay.yml", ("exit_codes: [11]", "exit_codes: eleven")),
    ],
)
def test_files_are_what_their_schema_asks_for(schema: str, file: Path, broken: tuple[str, str], tmp_path: Path) -> None:
    done = check(schema, file)
    assert done.returncode == 0, done.stdout

    # Whatever stands below a name with a dot is valid to the schema: as a job of its own it is looked at.
    text = file.read_text().replace("\n.gradassay:", "\nwhole:")
    (tmp_path / file.name).write_text(text)
    assert check(schema, tmp_path / file.name).returncode == 0
    assert broken[0] in text
    (tmp_path / file.name).write_text(text.replace(*broken))
    assert check(schema, tmp_path / file.name).returncode == 1


@pytest.mark.parametrize(
    ("page", "schema"), [("github.md", "vendor.github-workflows"), ("gitlab.md", "vendor.gitlab-ci")]
)
def test_what_the_pages_tell_people_to_copy_is_valid(page: str, schema: str, tmp_path: Path) -> None:
    whole = [block for block in blocks(page) if block.startswith(("name:", "include:"))]
    assert whole
    for number, block in enumerate(whole):
        file = tmp_path / f"{number}.yml"
        file.write_text(block)
        done = check(schema, file)
        assert done.returncode == 0, done.stdout


def test_the_example_is_what_the_page_shows() -> None:
    assert (GITHUB / "example.yml").read_text().split("\n", 1)[1] in blocks("github.md")


def test_an_example_gives_only_inputs_that_there_are() -> None:
    inputs = read(GITHUB / "action.yml")["inputs"]
    for text in [(GITHUB / "example.yml").read_text(), *blocks("github.md")]:
        for used in re.findall(r"uses: .*gradassay/ci/github@.*\n\s+with:\n((?:\s{10,}.*\n)+)", text):
            assert set(yaml.safe_load(used)) <= set(inputs)


def test_every_input_and_variable_is_documented() -> None:
    github, gitlab = ((ROOT / "docs" / page).read_text() for page in ("github.md", "gitlab.md"))
    action = read(GITHUB / "action.yml")
    for name in [*action["inputs"], *action["outputs"]]:
        assert f"`{name}`" in github
    for name in re.findall(r"\b(?:GRADASSAY|GITLAB)_[A-Z_]+", (GITLAB / "gradassay.yml").read_text()):
        assert f"`{name}`" in gitlab


def test_no_input_is_pasted_into_a_script_and_actions_are_pinned() -> None:
    for step in read(GITHUB / "action.yml")["runs"]["steps"]:
        assert "${{" not in step.get("run", "")
        if "uses" in step:
            assert re.fullmatch(r"actions/[a-z-]+@v\d+", step["uses"])


def test_only_an_unreachable_service_is_tried_again_and_no_failure_is_allowed() -> None:
    job = read(GITLAB / "gradassay.yml")[".gradassay"]
    assert job["retry"] == {"max": 2, "exit_codes": [11]}
    assert "allow_failure" not in job
    assert set(job["artifacts"]["reports"]) == {"junit", "codequality"}
