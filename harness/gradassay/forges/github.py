"""Comments of a pull request, by GitHub's REST API."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, Self

from gradassay.forges.calls import Calls
from gradassay.forges.capped import GITHUB_COMMENT
from gradassay.forges.comment import Comment
from gradassay.forges.detect import Forge
from gradassay.goldens.errors import NotFound, ServiceError

PAGE = 100
HINT = "the job's token needs `permissions: pull-requests: write`; jobs of a pull request from a fork never get that"


class GithubDiscussion:
    """The comments of the pull request that the job runs for (`/issues/comments`, as those beside no line of a file)."""

    name = "GitHub"
    limit = GITHUB_COMMENT

    def __init__(self, forge: Forge) -> None:
        headers = {
            "Accept": "application/vnd.github+json",
            "Authorization": f"Bearer {forge.token}",
            "X-GitHub-Api-Version": "2022-11-28",
        }
        self._calls = Calls(self.name, forge.api_url, token=forge.token, headers=headers, token_hint=HINT)
        self._graphql = forge.graphql_url
        self._comments = f"/repos/{forge.repository}/issues"
        self._change = forge.change

    def __enter__(self) -> Self:
        self._calls.__enter__()
        return self

    def __exit__(self, *raised: object) -> None:
        self._calls.__exit__(*raised)

    def comments(self) -> Iterator[Comment]:
        """All of them, oldest first."""
        page: str | None = f"{self._comments}/{self._change}/comments"
        params: dict[str, int] | None = {"per_page": PAGE}
        while page:
            answer = self._calls.ask("GET", page, params=params)
            yield from map(self._comment, answer.document)
            page, params = answer.next_link, None

    def create(self, body: str) -> Comment:
        """A new comment."""
        answer = self._calls.ask("POST", f"{self._comments}/{self._change}/comments", document={"body": body})
        return self._comment(answer.document)

    def update(self, comment: Comment, body: str) -> Comment:
        """The comment with another text."""
        answer = self._calls.ask("PATCH", f"{self._comments}/comments/{comment.id}", document={"body": body})
        return self._comment(answer.document)

    def delete(self, comment: Comment) -> None:
        """Takes it away; one that is gone already is no error."""
        try:
            self._calls.ask("DELETE", f"{self._comments}/comments/{comment.id}")
        except NotFound:
            return

    @cached_property
    def _login(self) -> str:
        """Whose token it is: the only call that also answers the token of a job, which is no user's (`name[bot]`)."""
        document = self._calls.ask("POST", self._graphql, document={"query": "query { viewer { login } }"}).document
        try:
            login: str = document["data"]["viewer"]["login"]
        except (KeyError, TypeError) as error:
            raise ServiceError(f"GitHub: {self._graphql} does not say whose token it is", hint=HINT) from error
        return login

    def _comment(self, document: dict[str, Any]) -> Comment:
        author = document.get("user") or {}
        return Comment(
            id=document["id"],
            body=document.get("body") or "",
            own=author.get("login") == self._login,
            link=document.get("html_url", ""),
        )
