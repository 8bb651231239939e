"""Calls of the service against real servers on loopback: what is tried again, what is not, and what a failure becomes."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest

from gradassay.client.client import ServiceClient, segment
from gradassay.goldens.errors import (
    KINDS,
    Conflict,
    Exit,
    Forbidden,
    GradassayError,
    Incomparable,
    InvalidFile,
    NoGolden,
    NotFound,
    ServiceError,
    TooLarge,
    Unauthorised,
    Unreachable,
    UsageError,
)
from scripted import Answer, answering, free_port

TOKEN = "gat_very-secret"


def client(url: str, *, retry_s: float = 20.0, said: list[str] | None = None, token: str = TOKEN) -> ServiceClient:
    return ServiceClient(url, token=token, retry_s=retry_s, say=(said if said is not None else []).append)


def test_a_call_carries_the_token_and_gives_json():
    with answering(Answer.of({"a": 1})) as server, client(server.url) as service:
        assert service.get("/runs", problem="toy", cursor=None) == {"a": 1}

    (asked,) = server.asked
    assert (asked.method, asked.path) == ("GET", "/api/v1/runs?problem=toy")
    assert asked.headers["Authorization"] == f"Bearer {TOKEN}"


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_what_may_pass_is_tried_again(status: int):
    said: list[str] = []
    with (
        answering(Answer.problem(status, "unreachable"), Answer.of([])) as server,
        client(server.url, said=said) as service,
    ):
        assert service.get("/runs") == []

    assert len(server.asked) == 2
    assert str(status) in said[0]
    assert "trying again in" in said[0]
    assert TOKEN not in "".join(said)


def test_a_connection_that_breaks_is_tried_again():
    with answering(Answer(cut=0), Answer.of({})) as server, client(server.url) as service:
        assert service.get("/runs") == {}
    assert len(server.asked) == 2


@pytest.mark.parametrize("date", [False, True])
def test_retry_after_is_obeyed(date: bool):
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=2), usegmt=True) if date else "1"
    said: list[str] = []
    with (
        answering(Answer(status=503, headers={"Retry-After": later}), Answer.of({})) as server,
        client(server.url, said=said) as service,
    ):
        service.get("/runs")
    (line,) = said
    if not date:
        assert "in 1.0 s" in line


def test_a_wait_beyond_the_budget_is_not_begun():
    with (
        answering(Answer(status=503, headers={"Retry-After": "3600"})) as server,
        client(server.url) as service,
        pytest.raises(Unreachable, match="tried once") as raised,
    ):
        service.get("/runs")
    assert "3600 s" in raised.value.hint
    assert raised.value.kind.exit is Exit.UNREACHABLE


def test_nothing_listens():
    with (
        client(f"http://127.0.0.1:{free_port()}", retry_s=0.5) as service,
        pytest.raises(Unreachable, match=r"tried \d times") as raised,
    ):
        service.get("/runs")
    assert raised.value.kind.exit is Exit.UNREACHABLE
    assert TOKEN not in str(raised.value)


def test_without_a_budget_nothing_is_tried_again():
    with (
        answering(Answer(status=503)) as server,
        client(server.url, retry_s=0) as service,
        pytest.raises(Unreachable, match="tried once"),
    ):
        service.get("/runs")
    assert len(server.asked) == 1


@pytest.mark.parametrize("answer", [Answer(cut=0), Answer(status=502), Answer(status=504)])
def test_a_decision_that_may_have_been_obeyed_is_not_sent_again(answer: Answer):
    with (
        answering(answer, Answer.of({})) as server,
        client(server.url) as service,
        pytest.raises(Unreachable) as raised,
    ):
        service.ask("PUT", "/goldens/toy/channels/approved", document={"version": 2}, repeatable=False)
    assert "may have been done" in raised.value.hint
    assert len(server.asked) == 1


def test_a_decision_that_was_refused_unheard_is_sent_again():
    with answering(Answer(status=503), Answer.of({"version": 2})) as server, client(server.url) as service:
        service.ask("PUT", "/goldens/toy/channels/approved", document={"version": 2}, repeatable=False)
    assert [asked.body for asked in server.asked] == [b'{"version":2}'] * 2


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (400, "usage", UsageError),
        (401, "unauthorised", Unauthorised),
        (403, "forbidden", Forbidden),
        (404, "not-found", NotFound),
        (404, "no-golden", NoGolden),
        (409, "conflict", Conflict),
        (413, "too-large", TooLarge),
        (422, "invalid-file", InvalidFile),
        (422, "incomparable", Incomparable),
        (500, "bug", ServiceError),
        (500, "store", ServiceError),
        (501, "missing-extra", ServiceError),
        (403, "a-code-of-next-year", Forbidden),
        (418, "a-code-of-next-year", ServiceError),
    ],
)
def test_a_problem_document_becomes_its_error(status: int, code: str, kind: type[GradassayError]):
    answer = Answer.problem(status, code, facts={"golden": "toy"}, request_id="r-1")
    with answering(answer) as server, client(server.url) as service, pytest.raises(GradassayError) as raised:
        service.get("/runs/1")
    assert type(raised.value) is kind
    assert f"said {code}" in raised.value.message
    assert raised.value.hint == "what to do" or kind is Unauthorised
    if status < 500:
        assert raised.value.facts["golden"] == "toy"
        assert raised.value.kind.exit == KINDS[kind.code].exit
    else:
        assert raised.value.kind.exit is Exit.SERVICE
        assert "r-1" in raised.value.message
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("answer", "kind", "says"),
    [
        (Answer(body=b"<html>hello"), ServiceError, "instead of JSON"),
        (Answer(status=404, body=b"<html>\x1b[31mno"), NotFound, r"\\x1b"),
        (Answer(status=413, body=b"nginx"), TooLarge, "nginx"),
        (Answer(status=302, headers={"Location": "https://elsewhere"}), ServiceError, "https://elsewhere"),
    ],
)
def test_what_is_no_answer_of_the_service(answer: Answer, kind: type[GradassayError], says: str):
    with answering(answer) as server, client(server.url) as service, pytest.raises(kind, match=says) as raised:
        service.get("/runs")
    assert "--url" in raised.value.hint


def test_without_a_token_the_hint_names_the_variable():
    with (
        answering(Answer.problem(401, "unauthorised")) as server,
        client(server.url, token="") as service,
        pytest.raises(Unauthorised) as raised,
    ):
        service.get("/runs")
    assert "GRADASSAY_TOKEN" in raised.value.hint
    assert "Authorization" not in server.asked[0].headers


@pytest.mark.parametrize(
    "url", ["", "nowhere", "ftp://host", "http://", "http://host:port", "http://me:pw@host", "http://host?x=1"]
)
def test_an_address_that_is_none(url: str):
    with pytest.raises(UsageError, match="--url") as raised:
        ServiceClient(url)
    assert "pw" not in str(raised.value)


@pytest.mark.parametrize("token", ["gat secret", "gat_sécret", "gat_secret\n"])
def test_a_token_that_is_none_is_refused_and_not_repeated(token: str):
    with pytest.raises(UsageError) as raised:
        ServiceClient("http://127.0.0.1:1", token=token)
    assert token.strip() not in str(raised.value)


def test_a_file_is_sent_whole_with_its_digest_after_a_connection_that_broke(tmp_path: Path):
    content = bytes(range(256)) * 10_000
    file = tmp_path / "record.safetensors"
    file.write_bytes(content)
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    with answering(Answer(cut=100_000), Answer.of({"id": "1"}, status=201)) as server, client(server.url) as service:
        assert service.send_file("/runs", file, digest) == ({"id": "1"}, True)

    cut, whole = server.asked
    assert len(cut.body) == 100_000
    assert whole.body == content
    assert whole.headers["Content-Length"] == str(len(content))
    assert whole.headers["Content-Digest"].startswith("sha-256=:")
    assert "Transfer-Encoding" not in whole.headers


def test_a_refusal_before_the_body_was_read_is_heard(tmp_path: Path):
    file = tmp_path / "record.safetensors"
    file.write_bytes(bytes(1000))
    with answering(Answer.problem(413, "too-large")) as server, client(server.url) as service, pytest.raises(TooLarge):
        service.send_file("/runs", file, "sha256:" + "0" * 64)
    assert len(server.asked) == 1


def test_a_file_that_is_gone_is_no_bug(tmp_path: Path):
    with (
        answering(Answer.of({})) as server,
        client(server.url) as service,
        pytest.raises(InvalidFile, match="changed while it was sent"),
    ):
        service.send_file("/runs", tmp_path / "none", "sha256:" + "0" * 64)
    assert not server.asked


def test_a_download_that_breaks_begins_anew(tmp_path: Path):
    content = b"x" * 100_000
    short = Answer(body=content[:10_000], headers={"Content-Length": "100000", "Connection": "close"})
    with answering(short, Answer(body=content)) as server, client(server.url) as service:
        assert service.fetch("/runs/1/record", tmp_path / "file") == f"sha256:{hashlib.sha256(content).hexdigest()}"
    assert (tmp_path / "file").read_bytes() == content


def test_a_download_that_is_refused(tmp_path: Path):
    with answering(Answer.problem(404, "not-found")) as server, client(server.url) as service, pytest.raises(NotFound):
        service.fetch("/runs/1/record", tmp_path / "file")
    assert not (tmp_path / "file").exists()


def test_names_are_one_segment_of_a_path():
    assert segment("../a/b?c#d") == "..%2Fa%2Fb%3Fc%23d"
