"""GitLab as far as notes of a merge request go: a real HTTP server on loopback that answers as its REST API is documented.

Notes (list, create, update, delete), the user of a token, PRIVATE-TOKEN, pages by X-Next-Page, notes of at most 1,000,000
characters (400), notes of the system among those of people, 429 with Retry-After.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

from forges.forge_server import Fake, Reply, Request, serving

LONGEST = 1_000_000
PROJECT = "42"
MERGE_REQUEST = 9
TOKEN = "glpat-very-secret"
USERS = {"project_42_bot": 5, "ada": 6, "eve": 7}
BOT = "project_42_bot"
NOTES = f"/api/v4/projects/{PROJECT}/merge_requests/{MERGE_REQUEST}/notes"


class GitlabFake(Fake):
    """One project with one merge request. read_only: as a token without the scope api."""

    def __init__(self) -> None:
        super().__init__()
        self.read_only = False

    def environ(self, **more: str) -> dict[str, str]:
        """The variables of a job that runs there."""
        return {
            "GITLAB_CI": "true",
            "CI_SERVER_URL": self.url,
            "CI_API_V4_URL": f"{self.url}/api/v4",
            "CI_PROJECT_ID": PROJECT,
            "CI_MERGE_REQUEST_IID": str(MERGE_REQUEST),
            "CI_MERGE_REQUEST_PROJECT_ID": PROJECT,
            "CI_MERGE_REQUEST_SOURCE_PROJECT_ID": PROJECT,
            "CI_JOB_NAME": "gradients",
            "CI_JOB_URL": f"{self.url}/our-org/trainer/-/jobs/3",
            "GITLAB_TOKEN": TOKEN,
            **more,
        }

    def answer(self, request: Request) -> Reply:
        """As documented for these calls."""
        if request.headers.get("PRIVATE-TOKEN") != TOKEN:
            return Reply.of({"message": "401 Unauthorized"}, 401)
        address = urlsplit(request.path)
        if address.path == "/api/v4/user":
            return Reply.of({"id": USERS[BOT], "username": BOT})
        if self.read_only and request.method != "GET":
            return Reply.of({"error": "insufficient_scope", "scope": "api"}, 403)
        if address.path == NOTES:
            return self._list(address.query) if request.method == "GET" else self._create(request)
        if one := re.fullmatch(rf"{NOTES}/(\d+)", address.path):
            return self._change(request, int(one[1]))
        return Reply.of({"message": "404 Project Not Found"}, 404)

    def _list(self, query: str) -> Reply:
        asked = {name: values[0] for name, values in parse_qs(query).items()}
        size, page = min(int(asked.get("per_page", 20)), 100), int(asked.get("page", 1))
        ordered = sorted(self.comments, key=lambda note: note["id"], reverse=asked.get("sort", "desc") == "desc")
        more = page * size < len(ordered)
        shown = [_shown(note) for note in ordered[(page - 1) * size : page * size]]
        return Reply.of(shown, **{"X-Next-Page": str(page + 1) if more else "", "X-Page": str(page)})

    def _create(self, request: Request) -> Reply:
        if refused := _refused(request):
            return refused
        return Reply.of(_shown(self.write(BOT, request.document["body"])), 201)

    def _change(self, request: Request, number: int) -> Reply:
        found = next((note for note in self.comments if note["id"] == number), None)
        if found is None:
            return Reply.of({"message": "404 Not found"}, 404)
        if request.method == "DELETE":
            self.comments.remove(found)
            return Reply(status=204, body=b"")
        if refused := _refused(request):
            return refused
        found["body"] = request.document["body"]
        return Reply.of(_shown(found))


def _refused(request: Request) -> Reply | None:
    if len(request.document["body"]) > LONGEST:
        return Reply.of({"message": {"note": ["is too long (maximum is 1000000 characters)"]}}, 400)
    return None


def _shown(note: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": note["id"],
        "body": note["body"],
        "system": note.get("system", False),
        "author": {"id": USERS[note["author"]], "username": note["author"]},
    }


@contextmanager
def gitlab() -> Iterator[GitlabFake]:
    """A running one."""
    with serving(GitlabFake()) as fake:
        yield fake
