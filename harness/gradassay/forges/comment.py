"""One comment of a job on its change: found again by a hidden marker, updated in place, created where there is none."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Protocol

import stamina
import stamina.instrumentation

from gradassay.client.patience import Patience, Unanswered
from gradassay.forges.capped import Limit
from gradassay.goldens.errors import NotFound, Unreachable

if TYPE_CHECKING:
    from stamina.instrumentation import RetryDetails

KEY = 100
"""Characters of a key that stand in a marker as they are; a longer one is named by its digest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comment:
    """A comment as the forge has it. id: grows with time. own: whether the token's owner wrote it. link: its page."""

    id: int
    body: str
    own: bool
    link: str = ""


class Discussion(Protocol):
    """The comments of one change. name: of the forge; limit: of a comment. All calls are tried once."""

    name: str
    limit: Limit

    def comments(self) -> Iterator[Comment]:
        """All of them, page after page."""
        ...

    def create(self, body: str) -> Comment:
        """A new comment."""
        ...

    def update(self, comment: Comment, body: str) -> Comment:
        """The comment with another text; raises NotFound where it is gone."""
        ...

    def delete(self, comment: Comment) -> None:
        """Takes it away."""
        ...


def marker(key: str) -> str:
    """The first line of a job's comment, which nobody sees; another key gives another line."""
    kept = re.sub(r"[^A-Za-z0-9._/]", lambda match: f"%{ord(match[0]):x}.", key)
    if len(kept) > KEY:
        kept = sha256(key.encode(errors="backslashreplace")).hexdigest()
    return f"<!-- gradassay:{kept} -->"


def upsert(
    discussion: Discussion,
    key: str,
    render: Callable[[Limit], str],
    *,
    create: bool = True,
    retry_s: float = 60.0,
    say: Callable[[str], None] = lambda _text: None,
) -> Comment | None:
    """The job's comment with this text; None where there was none and create is false.

    render: makes the text for a limit. A try that fails in a way that may pass is repeated from the look for the comment
    on, so that one which was created although no answer came is found and not created twice. Where jobs raced and made
    several, the oldest is kept and the others are deleted. Raises Unreachable after retry_s, else what the forge says.
    """
    first = f"{marker(key)}\n"
    body = first + render(discussion.limit.less(discussion.limit.length(first)))
    patience = Patience(retry_s, repeatable=True)
    with _told(discussion.name, say):
        try:
            for attempt in stamina.retry_context(
                on=patience, attempts=None, timeout=None, wait_initial=0.25, wait_max=8.0, wait_jitter=0.5
            ):
                with attempt:
                    return _once(discussion, first.strip(), body, create=create)
        except Unanswered as error:
            asked = f"; it asks to wait {error.after_s:.0f} s" if error.after_s is not None else ""
            raise Unreachable(
                f"{discussion.name} did not take the comment, tried {patience.tries} times: {error.message}{asked}",
                hint="the report folder holds the same; repeat the job for the comment",
            ) from error
    raise AssertionError("a call ends with an answer or an error")


def _once(discussion: Discussion, first: str, body: str, *, create: bool) -> Comment | None:
    found = sorted(
        (each for each in discussion.comments() if each.own and each.body.split("\n", 1)[0].strip() == first),
        key=lambda each: each.id,
    )
    if not found:
        return discussion.create(body) if create else None
    oldest, *others = found
    for other in others:
        discussion.delete(other)
    try:
        return discussion.update(oldest, body)
    except NotFound:
        return discussion.create(body) if create else None


@contextmanager
def _told(name: str, say: Callable[[str], None]) -> Iterator[None]:
    """Within it, further tries are told to `say` in the forge's name; stamina has one place for such hooks."""

    def announce(details: RetryDetails) -> None:
        say(f"{name} does not answer ({details.caused_by}); trying again in {details.wait_for:.1f} s")

    before = stamina.instrumentation.get_on_retry_hooks()
    stamina.instrumentation.set_on_retry_hooks([announce])
    try:
        yield
    finally:
        stamina.instrumentation.set_on_retry_hooks(before)
