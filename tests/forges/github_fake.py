"""GitHub as far as comments of a pull request go: a real HTTP server on loopback that answers as its REST API is documented.

Issue comments (list, create, update, delete), the viewer of GraphQL, bearer tokens, pages by the Link header, bodies of at
most 65,536 characters (422), read-only tokens (403), rate limits (403 with x-ratelimit-*), 404 for a token that sees nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

from forges.forge_server import Fake, Reply, Request, serving

LONGEST = 65_536
OWNER = "our-org/trainer"
PULL = 7
TOKEN = "ghs_very-secret"
BOT = "github-actions[bot]"


class GithubFake(Fake):
    """One repository with one pull request. read_only: as the token of a pull request from a fork."""

    def __init__(self) -> None:
        super().__init__()
        self.read_only = False

    def environ(self, **more: str) -> dict[str, str]:
        """The variables of a job that runs there."""
        return {
            "GITHUB_ACTIONS": "true",
            "GITHUB_REPOSITORY": OWNER,
            "GITHUB_SERVER_URL": self.url,
            "GITHUB_API_URL": self.url,
            "GITHUB_GRAPHQL_URL": f"{self.url}/graphql",
            "GITHUB_REF": f"refs/pull/{PULL}/merge",
            "GITHUB_RUN_ID": "11",
            "GITHUB_WORKFLOW": "tests",
            "GITHUB_JOB": "gradients",
            "GITHUB_TOKEN": TOKEN,
            **more,
        }

    def answer(self, request: Request) -> Reply:
        """As documented for these calls."""
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            return Reply.of({"message": "Bad credentials", "documentation_url": "https://docs.github.com/rest"}, 401)
        address = urlsplit(request.path)
        if address.path == "/graphql" and request.method == "POST":
            assert "viewer" in request.document["query"]
            return Reply.of({"data": {"viewer": {"login": BOT}}})
        if address.path == f"/repos/{OWNER}/issues/{PULL}/comments":
            return self._list(address.query) if request.method == "GET" else self._create(request)
        if one := re.fullmatch(rf"/repos/{OWNER}/issues/comments/(\d+)", address.path):
            return self._change(request, int(one[1]))
        return Reply.of({"message": "Not Found"}, 404)

    def _list(self, query: str) -> Reply:
        asked = {name: int(values[0]) for name, values in parse_qs(query).items()}
        size, page = min(asked.get("per_page", 30), 100), asked.get("page", 1)
        pages = max(1, -(-len(self.comments) // size))
        headers = {}
        if page < pages:
            base = f"{self.url}/repos/{OWNER}/issues/{PULL}/comments?per_page={size}"
            headers["Link"] = f'<{base}&page={page + 1}>; rel="next", <{base}&page={pages}>; rel="last"'
        shown = [self._shown(comment) for comment in self.comments[(page - 1) * size : page * size]]
        return Reply.of(shown, **headers)

    def _create(self, request: Request) -> Reply:
        if refused := self._refused(request):
            return refused
        return Reply.of(self._shown(self.write(BOT, request.document["body"])), 201)

    def _change(self, request: Request, number: int) -> Reply:
        found = next((comment for comment in self.comments if comment["id"] == number), None)
        if found is None:
            return Reply.of({"message": "Not Found"}, 404)
        if refused := self._refused(request):
            return refused
        if request.method == "DELETE":
            self.comments.remove(found)
            return Reply(status=204, body=b"")
        found["body"] = request.document["body"]
        return Reply.of(self._shown(found))

    def _refused(self, request: Request) -> Reply | None:
        if self.read_only:
            return Reply.of({"message": "Resource not accessible by integration", "status": "403"}, 403)
        if request.method != "DELETE" and len(request.document["body"]) > LONGEST:
            problem = {
                "resource": "IssueComment",
                "code": "unprocessable",
                "field": "data",
                "message": "Body is too long",
            }
            return Reply.of({"message": "Validation Failed", "errors": [problem], "status": "422"}, 422)
        return None

    def _shown(self, comment: dict[str, Any]) -> dict[str, Any]:
        kind = "Bot" if comment["author"].endswith("[bot]") else "User"
        return {
            "id": comment["id"],
            "html_url": f"{self.url}/{OWNER}/pull/{PULL}#issuecomment-{comment['id']}",
            "body": comment["body"],
            "user": {"login": comment["author"], "type": kind},
        }


@contextmanager
def github() -> Iterator[GithubFake]:
    """A running one."""
    with serving(GithubFake()) as fake:
        yield fake


def event(*, head: str = OWNER) -> str:
    """The file that tells of a pull request from this repository."""
    return json.dumps({"pull_request": {"number": PULL, "head": {"repo": {"full_name": head}}}})
