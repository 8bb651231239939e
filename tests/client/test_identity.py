"""A job without a secret: its identity becomes a token, when it is needed and not before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gradassay.client.client import ServiceClient
from gradassay.client.identity import authorise
from gradassay.goldens.container import digest_of_file
from gradassay.goldens.errors import Forbidden, Unauthorised, Unreachable
from issuers import Issuer, issuing
from scripted import Answer, answering, free_port
from served import Service, serving

if TYPE_CHECKING:
    from gradassay.goldens.record import Record


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with issuing() as running:
        yield running


@pytest.fixture
def trusting(tmp_path: Path, issuer: Issuer) -> Iterator[Service]:
    folder = tmp_path / "service"
    folder.mkdir()
    with serving(folder, uploads=folder, oidc_issuers=[issuer.settings], max_upload_bytes=2**26) as service:
        yield service


def github(url: str) -> dict[str, str]:
    return {"ACTIONS_ID_TOKEN_REQUEST_URL": f"{url}/ask?api-version=2.0", "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "secret"}


def post(client: ServiceClient, path: Path) -> None:
    client.send_file("/runs", path, digest_of_file(path))


def test_githubs_identity_posts_into_the_project_of_the_repository(
    trusting: Service, issuer: Issuer, tmp_path: Path, make_record: Callable[..., Record]
) -> None:
    make_record().write(tmp_path / "record.safetensors")
    with answering(Answer.of({"value": issuer.identity()})) as actions, ServiceClient(trusting.url) as client:
        with pytest.raises(Unauthorised):
            post(client, tmp_path / "record.safetensors")
        assert authorise(client, github(actions.url))
        assert not authorise(client, github(actions.url))
        post(client, tmp_path / "record.safetensors")
        (run,) = client.get("/runs")["items"]

    (asked,) = actions.asked
    assert asked.path == "/ask?api-version=2.0&audience=gradassay"
    assert asked.headers["Authorization"] == "Bearer secret"
    assert run["project"] == "training"


def test_an_identity_that_is_given_is_exchanged(
    trusting: Service, issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRADASSAY_ID_TOKEN", issuer.identity())
    with ServiceClient(trusting.url) as client:
        assert authorise(client, {})
        assert client.has_token


def test_a_token_is_kept(issuer: Issuer) -> None:
    with answering(Answer.of({"value": "x"})) as actions, ServiceClient(actions.url, token="gat_own") as client:
        assert not authorise(client, github(actions.url))
    assert actions.asked == []


def test_where_no_ci_offers_one_nothing_is_asked(issuer: Issuer) -> None:
    with ServiceClient(f"http://127.0.0.1:{free_port()}") as client:
        assert not authorise(client, {"ACTIONS_ID_TOKEN_REQUEST_URL": ""})
        assert not client.has_token


def test_an_identity_of_another_repository_is_refused(
    trusting: Service, issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRADASSAY_ID_TOKEN", issuer.identity(repository="stranger/trainer"))
    with ServiceClient(trusting.url) as client, pytest.raises(Forbidden, match="stranger/trainer"):
        authorise(client, {})


def test_a_job_that_may_not_ask_is_told_so() -> None:
    with answering(Answer(status=403)) as actions, ServiceClient(actions.url) as client:
        with pytest.raises(Unauthorised, match="answers 403") as raised:
            authorise(client, github(actions.url))
        assert "id-token: write" in raised.value.hint


def test_nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADASSAY_RETRY_S", "0")
    url = f"http://127.0.0.1:{free_port()}"
    with ServiceClient(url, retry_s=0) as client:
        with pytest.raises(Unreachable, match="GitHub gives no identity"):
            authorise(client, github(url))
        monkeypatch.setenv("GRADASSAY_ID_TOKEN", "a.b.c")
        with pytest.raises(Unreachable, match="tokens/exchange"):
            authorise(client, {})


def test_a_passing_failure_is_tried_again() -> None:
    given = (Answer.of({"value": "a"}), Answer.of({"token": "gat_x"}, status=201))
    with answering(Answer(status=503), *given) as both, ServiceClient(both.url) as client:
        assert authorise(client, github(both.url))
    assert [asked.method for asked in both.asked] == ["GET", "GET", "POST"]
