"""Notes of a merge request, by GitLab's REST API."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, Self
from urllib.parse import quote

from gradassay.forges.calls import Calls
from gradassay.forges.capped import GITLAB_COMMENT
from gradassay.forges.comment import Comment
from gradassay.forges.detect import Forge
from gradassay.goldens.errors import NotFound

PAGE = 100
HINT = "GITLAB_TOKEN needs the scope api and the role Reporter in the project of the merge request"


class GitlabDiscussion:
    """The notes of the merge request that the job runs for."""

    name = "GitLab"
    limit = GITLAB_COMMENT

    def __init__(self, forge: Forge) -> None:
        headers = {"Accept": "application/json", "PRIVATE-TOKEN": forge.token}
        self._calls = Calls(self.name, forge.api_url, token=forge.token, headers=headers, token_hint=HINT)
        self._notes = f"/projects/{quote(forge.repository, safe='')}/merge_requests/{forge.change}/notes"

    def __enter__(self) -> Self:
        self._calls.__enter__()
        return self

    def __exit__(self, *raised: object) -> None:
        self._calls.__exit__(*raised)

    def comments(self) -> Iterator[Comment]:
        """All that people and tools wrote, oldest first."""
        page = "1"
        while page:
            params = {"sort": "asc", "order_by": "created_at", "per_page": PAGE, "page": page}
            answer = self._calls.ask("GET", self._notes, params=params)
            yield from (self._comment(note) for note in answer.document if not note.get("system"))
            page = answer.headers.get("x-next-page", "").strip()

    def create(self, body: str) -> Comment:
        """A new note."""
        return self._comment(self._calls.ask("POST", self._notes, document={"body": body}).document)

    def update(self, comment: Comment, body: str) -> Comment:
        """The note with another text."""
        return self._comment(self._calls.ask("PUT", f"{self._notes}/{comment.id}", document={"body": body}).document)

    def delete(self, comment: Comment) -> None:
        """Takes it away; one that is gone already is no error."""
        try:
            self._calls.ask("DELETE", f"{self._notes}/{comment.id}")
        except NotFound:
            return

    @cached_property
    def _user(self) -> int:
        """Whose token it is."""
        number: int = self._calls.ask("GET", "/user").document["id"]
        return number

    def _comment(self, document: dict[str, Any]) -> Comment:
        return Comment(
            id=document["id"],
            body=document.get("body") or "",
            own=(document.get("author") or {}).get("id") == self._user,
        )
