"""Which CI runs a job, from the variables that GitHub and GitLab document."""

from __future__ import annotations

from pathlib import Path

import pytest

from forges import github_fake, gitlab_fake
from forges.github_fake import GithubFake, event
from forges.gitlab_fake import GitlabFake
from gradassay.forges.detect import Kind, detect
from gradassay.goldens.errors import UsageError


def github(**more: str) -> dict[str, str]:
    return GithubFake().environ(**{"GITHUB_API_URL": "https://ghe.example.org/api/v3", **more})


def test_outside_a_ci_there_is_none() -> None:
    assert detect({"CI": "true", "GITHUB_TOKEN": "x", "GITHUB_ACTIONS": "false"}) is None


def test_github_says_repository_job_api_and_pull_request(tmp_path: Path) -> None:
    summary = tmp_path / "summary"
    found = detect(
        github(GITHUB_SERVER_URL="https://ghe.example.org", GITHUB_RUN_ATTEMPT="2", GITHUB_STEP_SUMMARY=str(summary))
    )

    assert found is not None
    assert (found.kind, found.repository, found.change) == (Kind.GITHUB, github_fake.OWNER, github_fake.PULL)
    assert found.job_url == "https://ghe.example.org/our-org/trainer/actions/runs/11/attempts/2"
    assert (found.api_url, found.job, found.summary) == ("https://ghe.example.org/api/v3", "tests/gradients", summary)


@pytest.mark.parametrize(
    ("content", "number"),
    [
        (event(), 7),
        ('{"issue": {"number": 8, "pull_request": {}}}', 8),
        ('{"issue": {"number": 8}}', None),
        ('{"ref": "refs/heads/main"}', None),
        ("[]", None),
    ],
)
def test_the_pull_request_is_that_of_the_event(tmp_path: Path, content: str, number: int | None) -> None:
    file = tmp_path / "event.json"
    file.write_text(content)
    found = detect(github(GITHUB_EVENT_PATH=str(file), GITHUB_REF="refs/heads/main"))

    assert found is not None
    assert found.change == number


@pytest.mark.parametrize(
    ("content", "fork"),
    [
        (event(), False),
        (event(head="eve/trainer"), True),
        ('{"pull_request": {"number": 7, "head": {"repo": null}}}', True),
    ],
)
def test_a_fork_is_seen(tmp_path: Path, content: str, fork: bool) -> None:
    file = tmp_path / "event.json"
    file.write_text(content)
    found = detect(github(GITHUB_EVENT_PATH=str(file)))

    assert found is not None
    assert found.from_fork is fork


def test_an_event_that_is_no_json_is_named(tmp_path: Path) -> None:
    file = tmp_path / "event.json"
    file.write_text("{")
    with pytest.raises(UsageError, match="GITHUB_EVENT_PATH"):
        detect(github(GITHUB_EVENT_PATH=str(file)))


def test_gitlab_says_the_project_of_the_merge_request_and_a_fork() -> None:
    fake = GitlabFake()
    fake.url = "https://gitlab.example.org"
    found = detect(fake.environ(CI_PROJECT_ID="77", CI_MERGE_REQUEST_SOURCE_PROJECT_ID="77"))

    assert found is not None
    assert (found.kind, found.repository, found.change) == (Kind.GITLAB, gitlab_fake.PROJECT, gitlab_fake.MERGE_REQUEST)
    assert (found.api_url, found.from_fork) == ("https://gitlab.example.org/api/v4", True)


def test_gitlab_without_a_merge_request_has_no_change() -> None:
    found = detect({"GITLAB_CI": "true", "CI_SERVER_URL": "https://gitlab.example.org/", "CI_PROJECT_ID": "1"})

    assert found is not None
    assert found.change is None
    assert found.api_url == "https://gitlab.example.org/api/v4"


def test_a_token_stands_in_no_text_of_a_job() -> None:
    for environ in (github(), GitlabFake().environ()):
        found = detect(environ)
        assert found is not None
        assert found.token
        assert found.token not in repr(found)
