"""One comment a job on GitHub and on GitLab, against servers that speak their documented API."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import stamina.instrumentation

from forges.forge_server import Fake, Reply
from forges.github_fake import BOT as GITHUB_BOT
from forges.github_fake import github
from forges.gitlab_fake import BOT as GITLAB_BOT
from forges.gitlab_fake import gitlab
from gradassay.forges.capped import Limit
from gradassay.forges.comment import Comment, Discussion, marker, upsert
from gradassay.forges.detect import detect
from gradassay.forges.github import GithubDiscussion
from gradassay.forges.gitlab import GitlabDiscussion
from gradassay.goldens.errors import (
    Forbidden,
    GradassayError,
    NotFound,
    ServiceError,
    Unauthorised,
    Unreachable,
    UsageError,
)
from scripted import Answer, answering

EVE = "eve"
KINDS = ("github", "gitlab")


class Forge:
    """A fake, who the token's owner is there, and a way to open the discussion with other settings."""

    def __init__(self, fake: Fake, environ: dict[str, str], bot: str) -> None:
        self.fake = fake
        self.environ = environ
        self.bot = bot

    @contextmanager
    def open(self, **more: str) -> Iterator[Discussion]:
        found = detect(self.environ | more)
        assert found is not None
        made = GithubDiscussion(found) if found.kind == "github" else GitlabDiscussion(found)
        with made:
            yield made

    def upsert(self, text: str, *, key: str = "job", **more: object) -> Comment | None:
        with self.open() as discussion:
            return upsert(discussion, key, lambda _limit: text, **more)  # type: ignore[arg-type]

    @property
    def bodies(self) -> list[str]:
        return [str(comment["body"]) for comment in self.fake.comments]


@pytest.fixture(params=KINDS)
def forge(request: pytest.FixtureRequest) -> Iterator[Forge]:
    """A running forge of either kind."""
    if request.param == "github":
        with github() as hub:
            yield Forge(hub, hub.environ(), GITHUB_BOT)
    else:
        with gitlab() as lab:
            yield Forge(lab, lab.environ(), GITLAB_BOT)


def body(text: str, key: str = "job") -> str:
    return f"{marker(key)}\n{text}"


def test_a_comment_is_created_and_then_updated_in_place(forge: Forge) -> None:
    forge.fake.write(EVE, "looks good")
    forge.upsert("first")
    forge.upsert("second")

    assert forge.bodies == ["looks good", body("second")]


def test_jobs_with_other_keys_have_their_own(forge: Forge) -> None:
    forge.upsert("one", key="a")
    forge.upsert("two", key="b")
    forge.upsert("three", key="a")

    assert forge.bodies == [body("three", "a"), body("two", "b")]


def test_it_is_found_behind_many_pages(forge: Forge) -> None:
    for number in range(205):
        forge.fake.write(EVE, f"comment {number}")
    forge.fake.write(forge.bot, body("old"))
    for number in range(120):
        forge.fake.write(EVE, f"later {number}")

    forge.upsert("new")

    assert forge.bodies[205] == body("new")
    assert len(forge.bodies) == 326
    assert forge.fake.methods().count("GET") - (forge.bot == GITLAB_BOT) == 4


def test_none_of_others_is_edited(forge: Forge) -> None:
    forge.fake.write(EVE, body("a forgery"))
    forge.fake.write(forge.bot, f"quoting > {marker('job')}")
    forge.upsert("mine")

    assert forge.bodies == [body("a forgery"), f"quoting > {marker('job')}", body("mine")]


def test_of_several_own_the_oldest_stays(forge: Forge) -> None:
    for text in ("one", "two", "three"):
        forge.fake.write(forge.bot, body(text))
    kept = forge.fake.comments[0]["id"]
    forge.upsert("four")

    assert [(comment["id"], comment["body"]) for comment in forge.fake.comments] == [(kept, body("four"))]


def test_racing_jobs_end_with_one_comment(forge: Forge) -> None:
    threads = [threading.Thread(target=forge.upsert, args=(f"text {number}",)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    forge.upsert("last")

    assert forge.bodies == [body("last")]


def test_nothing_is_created_where_that_is_not_asked_for(forge: Forge) -> None:
    assert forge.upsert("skipped", create=False) is None
    assert forge.bodies == []
    forge.upsert("result")
    assert forge.upsert("skipped", create=False) is not None
    assert forge.bodies == [body("skipped")]


@pytest.mark.parametrize("status", [502, 429])
def test_what_may_pass_is_tried_again(forge: Forge, status: int) -> None:
    said: list[str] = []
    forge.fake.failures = {"GET": [Reply(status=status)], "POST": [Reply(status=status)]}
    forge.upsert("text", say=said.append)

    assert forge.bodies == [body("text")]
    assert len(said) == 2
    assert str(status) in said[0]


def test_a_comment_that_was_created_without_an_answer_is_not_created_twice(forge: Forge) -> None:
    forge.upsert("before")
    forge.fake.comments.clear()
    # On GitHub the first POST asks who the token's owner is, which only a found comment makes necessary.
    forge.fake.failures = {"POST": [Reply(status=502, obeyed=True)]}
    forge.upsert("text")

    assert forge.bodies == [body("text")]


def test_retry_after_is_obeyed(forge: Forge) -> None:
    said: list[str] = []
    forge.fake.failures = {"POST": [Reply(status=429, headers={"Retry-After": "1"})]}
    forge.upsert("text", say=said.append)

    assert "in 1.0 s" in said[0]


def limited(kind: str, reset: float) -> Reply:
    if kind == GITHUB_BOT:
        names = {"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(int(reset))}
        return Reply.of({"message": "API rate limit exceeded"}, 403, **names)
    return Reply.of(
        {"message": "429 Too Many Requests"}, 429, **{"RateLimit-Remaining": "0", "RateLimit-Reset": str(int(reset))}
    )


def test_a_used_up_rate_limit_is_waited_for(forge: Forge) -> None:
    said: list[str] = []
    forge.fake.failures = {"GET": [limited(forge.bot, time.time() + 2)]}
    forge.upsert("text", say=said.append)

    assert forge.bodies == [body("text")]
    assert len(said) == 1


def test_a_rate_limit_that_lasts_is_given_up_at_once(forge: Forge) -> None:
    forge.fake.failures = {"GET": [limited(forge.bot, time.time() + 3000)]}
    with pytest.raises(Unreachable, match=r"asks to wait \d{4} s"):
        forge.upsert("text", retry_s=5.0)
    assert len(forge.fake.asked) == 1


def test_a_forge_that_is_down_is_given_up_after_a_while(forge: Forge) -> None:
    forge.fake.failures = {"GET": [Reply(status=503)] * 50}
    with pytest.raises(Unreachable, match=r"tried \d+ times"):
        forge.upsert("text", retry_s=0.5)


def test_a_token_that_may_only_read_is_forbidden_and_not_tried_again(forge: Forge) -> None:
    forge.fake.read_only = True  # type: ignore[attr-defined]
    with pytest.raises(Forbidden, match="403") as raised:
        forge.upsert("text")

    assert "Resource not accessible" in str(raised.value) or "insufficient_scope" in str(raised.value)
    assert forge.fake.methods().count("POST") == 1


def test_a_wrong_token_is_said_and_printed_nowhere(forge: Forge) -> None:
    name = "GITHUB_TOKEN" if forge.bot == GITHUB_BOT else "GITLAB_TOKEN"
    with pytest.raises(Unauthorised) as raised, forge.open(**{name: "wrong-secret"}) as discussion:
        upsert(discussion, "job", lambda _limit: "text")
    assert "wrong-secret" not in str(raised.value)


@pytest.mark.parametrize("token", ["a b", "line\nend", "é"])
def test_a_token_that_is_none_is_refused_unprinted(forge: Forge, token: str) -> None:
    name = "GITHUB_TOKEN" if forge.bot == GITHUB_BOT else "GITLAB_TOKEN"
    with pytest.raises(UsageError) as raised, forge.open(**{name: token}):
        pass
    assert token not in str(raised.value)
    assert forge.fake.asked == []


def test_a_change_that_the_token_does_not_see_is_not_found(forge: Forge) -> None:
    more = {"GITHUB_REPOSITORY": "x/y", "CI_MERGE_REQUEST_PROJECT_ID": "1"}
    with pytest.raises(NotFound), forge.open(**more) as discussion:
        upsert(discussion, "job", lambda _limit: "text")


def test_a_comment_that_goes_away_meanwhile_is_created_anew(forge: Forge) -> None:
    forge.fake.write(forge.bot, body("old"))
    method = "PATCH" if forge.bot == GITHUB_BOT else "PUT"
    forge.fake.failures = {method: [Reply.of({"message": "Not Found"}, 404)]}
    forge.upsert("new")

    assert body("new") in forge.bodies


def test_the_limit_leaves_room_for_the_marker_and_is_what_the_forge_takes(forge: Forge) -> None:
    def fill(limit: Limit) -> str:
        return "é" * limit.most

    with forge.open() as discussion:
        made = upsert(discussion, "job", fill)
        assert made is not None
        assert len(made.body) == discussion.limit.most
        with pytest.raises(ServiceError, match=r"422|400"):
            discussion.create("é" * (discussion.limit.most + 1))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_token_follows_no_redirect(kind: str, status: int) -> None:
    with (
        answering(Answer()) as other,
        answering(Answer(status=status, headers={"Location": f"{other.url}/x"})) as first,
    ):
        forge = _elsewhere(kind, first.url)
        with pytest.raises(ServiceError, match="points to"):
            forge.upsert("text")
        assert other.asked == []


def test_a_next_page_on_another_host_gets_no_token() -> None:
    with answering(Answer.of([])) as other:
        with answering(Answer.of([], Link=f'<{other.url}/page2>; rel="next"')) as first, pytest.raises(ServiceError):
            _elsewhere("github", first.url).upsert("text")
        assert other.asked == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_body_that_repeats_the_token_is_not_repeated(kind: str) -> None:
    reply = Answer.of({"message": f"bad token {kind}-secret\n\x1b[31m"}, status=400)
    with answering(reply) as server, pytest.raises(GradassayError) as raised:
        _elsewhere(kind, server.url, token=f"{kind}-secret").upsert("text")

    assert f"{kind}-secret" not in str(raised.value)
    assert "***" in str(raised.value)
    assert "\x1b" not in str(raised.value)


@pytest.mark.parametrize("kind", KINDS)
def test_an_answer_that_is_no_json_is_named(kind: str) -> None:
    reply = Answer(body=b"<html>", headers={"Content-Type": "text/html"})
    with answering(reply) as server, pytest.raises(ServiceError, match="text/html"):
        _elsewhere(kind, server.url).upsert("text")


def _elsewhere(kind: str, url: str, token: str = "secret") -> Forge:
    if kind == "github":
        environ = {"GITHUB_ACTIONS": "true", "GITHUB_REPOSITORY": "o/r", "GITHUB_REF": "refs/pull/1/merge"}
        return Forge(Fake(), environ | {"GITHUB_API_URL": url, "GITHUB_TOKEN": token}, GITHUB_BOT)
    environ = {"GITLAB_CI": "true", "CI_PROJECT_ID": "1", "CI_MERGE_REQUEST_IID": "1"}
    return Forge(Fake(), environ | {"CI_API_V4_URL": url, "GITLAB_TOKEN": token}, GITLAB_BOT)


def test_markers_of_other_keys_differ_and_end_no_html_comment() -> None:
    keys = ["a", "a ", "a-b", "a--b", "a --> b", "tests/gradients/matrix.toml", "é", "x" * 500, "x" * 501, "a%2d.b"]
    markers = [marker(key) for key in keys]

    assert len(set(markers)) == len(keys)
    for each in markers:
        assert each.startswith("<!-- gradassay:")
        assert each.endswith(" -->")
        assert "--" not in each[4:-3]
        assert "\n" not in each


def test_what_was_told_about_tries_is_told_again_afterwards(forge: Forge) -> None:
    before = stamina.instrumentation.get_on_retry_hooks()
    forge.upsert("text")
    assert stamina.instrumentation.get_on_retry_hooks() == before
