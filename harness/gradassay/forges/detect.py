"""Which CI runs this job, and what it says of the job in its documented variables."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from gradassay.goldens.errors import UsageError


class Kind(StrEnum):
    """The systems whose variables and API are known."""

    GITHUB = "github"
    GITLAB = "gitlab"


@dataclass(frozen=True, slots=True, kw_only=True)
class Forge:
    """One running job. What the system does not say is empty, or None.

    repository: owner/name on GitHub, the number of the project that the merge request belongs to on GitLab. change:
    number of the pull or merge request. job: names this job among those of the same change. job_url: where its log is.
    api_url, graphql_url: of the installation that runs it. token: in no text of this object. from_fork: the change comes
    from another repository, whose jobs get no token that writes. summary: the file that GitHub shows as Markdown; outputs:
    the file from which later steps read `name=value`.
    """

    kind: Kind
    repository: str
    change: int | None
    job: str
    job_url: str
    api_url: str
    graphql_url: str = ""
    token: str = field(default="", repr=False)
    from_fork: bool = False
    summary: Path | None = None
    outputs: Path | None = None


def detect(environ: Mapping[str, str]) -> Forge | None:
    """The job that these environment variables tell of, or None outside GitHub Actions and GitLab CI."""
    if environ.get("GITHUB_ACTIONS") == "true":
        return _github(environ)
    if environ.get("GITLAB_CI") == "true":
        return _gitlab(environ)
    return None


def _github(environ: Mapping[str, str]) -> Forge:
    repository = environ.get("GITHUB_REPOSITORY", "")
    server = environ.get("GITHUB_SERVER_URL", "https://github.com").rstrip("/")
    api = environ.get("GITHUB_API_URL", "https://api.github.com").rstrip("/")
    event = _event(environ.get("GITHUB_EVENT_PATH", ""))
    run, attempt = environ.get("GITHUB_RUN_ID", ""), environ.get("GITHUB_RUN_ATTEMPT", "")
    url = f"{server}/{repository}/actions/runs/{run}" + (f"/attempts/{attempt}" if attempt else "")
    summary, outputs = environ.get("GITHUB_STEP_SUMMARY", ""), environ.get("GITHUB_OUTPUT", "")
    return Forge(
        kind=Kind.GITHUB,
        repository=repository,
        change=_pull_request(event, environ.get("GITHUB_REF", "")),
        job="/".join(filter(None, (environ.get("GITHUB_WORKFLOW", ""), environ.get("GITHUB_JOB", "")))),
        job_url=url if repository and run else "",
        api_url=api,
        graphql_url=environ.get("GITHUB_GRAPHQL_URL", f"{api}/graphql"),
        token=environ.get("GITHUB_TOKEN") or environ.get("GH_TOKEN", ""),
        from_fork=_is_of_fork(event, repository),
        summary=Path(summary) if summary else None,
        outputs=Path(outputs) if outputs else None,
    )


def _event(path: str) -> dict[str, Any]:
    """What set the workflow off; empty where there is no such file."""
    if not path or not Path(path).exists():
        return {}
    try:
        event = json.loads(Path(path).read_bytes())
    except (OSError, ValueError) as error:
        raise UsageError(
            f"GITHUB_EVENT_PATH: {path} cannot be read ({error})", hint="leave the variable as GitHub sets it"
        ) from error
    return event if isinstance(event, dict) else {}


def _pull_request(event: Mapping[str, Any], ref: str) -> int | None:
    pull = event.get("pull_request")
    number = pull.get("number") if isinstance(pull, dict) else None
    issue = event.get("issue")
    if number is None and isinstance(issue, dict) and "pull_request" in issue:
        number = issue.get("number")
    if number is None and (merge := re.fullmatch(r"refs/pull/(\d+)/(?:merge|head)", ref)):
        number = int(merge[1])
    return number if isinstance(number, int) else None


def _is_of_fork(event: Mapping[str, Any], repository: str) -> bool:
    """A deleted fork has no repository in the event."""
    pull = event.get("pull_request")
    if not isinstance(pull, dict) or not isinstance(head := pull.get("head"), dict):
        return False
    origin = head.get("repo")
    return not isinstance(origin, dict) or origin.get("full_name") != repository


def _gitlab(environ: Mapping[str, str]) -> Forge:
    number = environ.get("CI_MERGE_REQUEST_IID", "")
    project = environ.get("CI_PROJECT_ID", "")
    target = environ.get("CI_MERGE_REQUEST_PROJECT_ID", project)
    server = environ.get("CI_SERVER_URL", "https://gitlab.com").rstrip("/")
    return Forge(
        kind=Kind.GITLAB,
        repository=target,
        change=int(number) if number.isdecimal() else None,
        job=environ.get("CI_JOB_NAME", ""),
        job_url=environ.get("CI_JOB_URL", ""),
        api_url=environ.get("CI_API_V4_URL", f"{server}/api/v4").rstrip("/"),
        token=environ.get("GITLAB_TOKEN", ""),
        from_fork=environ.get("CI_MERGE_REQUEST_SOURCE_PROJECT_ID", target) != target,
    )
