from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from sqlalchemy import update

from gradassay.api.auth.exchange import Exchange
from gradassay.api.auth.scope import Scope
from gradassay.api.auth.tokens import Tokens
from gradassay.api.database.database import Database
from gradassay.api.database.tables import TokenRow
from gradassay.goldens.errors import Forbidden, Unauthorised, Unreachable
from issuers import Issuer, issuing, public_key


@pytest.fixture(scope="module")
def running() -> Iterator[Issuer]:
    with issuing() as issuer:
        yield issuer


@pytest.fixture
def issuer(running: Issuer, monkeypatch: pytest.MonkeyPatch) -> Issuer:
    """The running issuer; what it publishes is put back afterwards."""
    monkeypatch.setattr(running, "published", running.published)
    monkeypatch.setattr(running, "asked", 0)
    return running


@pytest.fixture
def url(tmp_path: Path) -> str:
    """SQLite alone: nothing here depends on the kind of database."""
    return f"sqlite:///{tmp_path}/service.db"


@pytest.fixture
def exchange(issuer: Issuer, tokens: Tokens) -> Exchange:
    return Exchange([issuer.settings], tokens)


@pytest.mark.parametrize("key", ["rsa", "ec"])
def test_identity_gives_a_token_that_posts_for_a_quarter_of_an_hour(
    issuer: Issuer, exchange: Exchange, tokens: Tokens, key: str
):
    token, secret = exchange.token(issuer.identity(key=key))
    assert (token.project, token.scopes) == ("training", (Scope.POST,))
    assert (token.name, token.created_by) == ("repo:team/training:ref:refs/heads/main", issuer.url)
    assert token.expires_at is not None
    assert timedelta(minutes=14) < token.expires_at - datetime.now(UTC) <= timedelta(minutes=15)
    found = tokens.find(secret)
    assert found is not None
    assert not found.caller.operator


def test_claim_chooses_the_project(issuer: Issuer, exchange: Exchange):
    assert exchange.token(issuer.identity(repository="team/research"))[0].project == "research"


@pytest.mark.parametrize("value", ["team/other", "TEAM/TRAINING", "team/training/", 7, ["team/training"], None])
def test_job_of_no_project_gets_nothing(issuer: Issuer, exchange: Exchange, tokens: Tokens, value: Any):
    with pytest.raises(Forbidden, match="no project belongs to jobs whose repository is"):
        exchange.token(issuer.identity(repository=value))
    assert tokens.of_project() == []


def encoded(part: bytes | dict[str, Any]) -> str:
    raw = part if isinstance(part, bytes) else json.dumps(part).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def unsigned(issuer: Issuer) -> str:
    return f"{encoded({'alg': 'none', 'kid': 'rsa'})}.{encoded(issuer.claims())}."


def unsigned_in_disguise(issuer: Issuer) -> str:
    return f"{encoded({'alg': 'NoNe', 'kid': 'rsa'})}.{encoded(issuer.claims())}."


def signed_with_the_public_key(issuer: Issuer) -> str:
    """HS256 whose shared secret is the published key: what a verifier that trusts `alg` takes for valid."""
    public = issuer.keys["rsa"].public_key()
    secret = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    signed = f"{encoded({'alg': 'HS256', 'kid': 'rsa'})}.{encoded(issuer.claims())}"
    return f"{signed}.{encoded(hmac.new(secret, signed.encode(), hashlib.sha256).digest())}"


def signed_by_somebody_else(issuer: Issuer) -> str:
    key = rsa.generate_private_key(65537, 2048)
    return jwt.encode(issuer.claims(), key, algorithm="RS256", headers={"kid": "rsa"})


def signed_by_an_unknown_key(issuer: Issuer) -> str:
    return issuer.identity(kid="forgotten")


def signed_by_a_key_that_it_brings(issuer: Issuer) -> str:
    key = rsa.generate_private_key(65537, 2048)
    headers = {"kid": "own", "jwk": public_key("own", key), "jku": "http://127.0.0.1:1/keys"}
    return jwt.encode(issuer.claims(), key, algorithm="RS256", headers=headers)


def signed_with_another_algorithm(issuer: Issuer) -> str:
    return jwt.encode(issuer.claims(), issuer.keys["rsa"], algorithm="RS512", headers={"kid": "rsa"})


def without_key_id(issuer: Issuer) -> str:
    return jwt.encode(issuer.claims(), issuer.keys["rsa"], algorithm="RS256")


def changed_after_signing(issuer: Issuer) -> str:
    header, _, signature = issuer.identity().split(".")
    return f"{header}.{encoded(issuer.claims(repository='team/research'))}.{signature}"


def at(seconds: float) -> int:
    return int(time.time() + seconds)


FORGED: dict[str, Callable[[Issuer], str]] = {
    "alg none": unsigned,
    "alg NoNe": unsigned_in_disguise,
    "HS256 with the public key": signed_with_the_public_key,
    "another key": signed_by_somebody_else,
    "unknown kid": signed_by_an_unknown_key,
    "its own key": signed_by_a_key_that_it_brings,
    "RS512": signed_with_another_algorithm,
    "no kid": without_key_id,
    "changed": changed_after_signing,
    "another issuer": lambda issuer: issuer.identity(iss="https://elsewhere.example"),
    "issuer is a list": lambda issuer: f"{encoded({'alg': 'RS256'})}.{encoded({'iss': [issuer.url]})}.AAAA",
    "no issuer": lambda issuer: issuer.identity(iss=None),
    "another audience": lambda issuer: issuer.identity(aud="https://elsewhere.example"),
    "no audience": lambda issuer: issuer.identity(aud=None),
    "expired": lambda issuer: issuer.identity(exp=at(-60)),
    "no expiry": lambda issuer: issuer.identity(exp=None),
    "not yet valid": lambda issuer: issuer.identity(nbf=at(300)),
    "issued in the future": lambda issuer: issuer.identity(iat=at(300)),
    "no time of issue": lambda issuer: issuer.identity(iat=None),
    "no subject": lambda issuer: issuer.identity(sub=None),
    "nothing": lambda issuer: "",
    "no JWT": lambda issuer: "a.b.c",
    "a token of ours": lambda issuer: "gat_" + "A" * 43,
    "deep nesting": lambda issuer: f"{encoded({'alg': 'RS256'})}.{encoded(b'[' * 11_000)}.AAAA",
    "a lone surrogate": lambda issuer: "\ud800.a.b",
}


@pytest.mark.parametrize("name", FORGED)
def test_identity_that_does_not_hold_gives_nothing(issuer: Issuer, exchange: Exchange, tokens: Tokens, name: str):
    with pytest.raises(Unauthorised):
        exchange.token(FORGED[name](issuer))
    assert tokens.of_project() == []
    exchange.token(issuer.identity())


def test_clocks_may_differ_by_seconds(issuer: Issuer, exchange: Exchange):
    exchange.token(issuer.identity(iat=at(15), nbf=at(15)))
    exchange.token(issuer.identity(exp=at(-10)))


def test_without_issuers_nobody_is_trusted(issuer: Issuer, tokens: Tokens):
    with pytest.raises(Unauthorised, match="is not trusted here"):
        Exchange([], tokens).token(issuer.identity())
    assert issuer.asked == 0


def test_nobody_is_asked_for_the_keys_of_an_unknown_issuer(issuer: Issuer, exchange: Exchange):
    with pytest.raises(Unauthorised):
        exchange.token(issuer.identity(iss="https://elsewhere.example"))
    assert issuer.asked == 0


def test_one_issuer_cannot_vouch_for_the_jobs_of_another(issuer: Issuer, tokens: Tokens):
    with issuing() as other:
        exchange = Exchange([issuer.settings, other.settings], tokens)
        exchange.token(other.identity())
        with pytest.raises(Unauthorised):
            exchange.token(other.identity(iss=issuer.url))


def test_keys_are_fetched_once_for_many(issuer: Issuer, exchange: Exchange):
    for _ in range(3):
        exchange.token(issuer.identity())
    for _ in range(3):
        with pytest.raises(Unauthorised):
            exchange.token(issuer.identity(kid="forgotten"))
    assert issuer.asked == 1


@pytest.mark.parametrize("published", [None, "<html>", [], {}, {"keys": []}, {"keys": [{"kty": "oct", "k": "AAAA"}]}])
def test_issuer_without_keys_is_said_to_be_unreachable(issuer: Issuer, exchange: Exchange, published: Any):
    issuer.published = published
    with pytest.raises(Unreachable, match="gave no keys"):
        exchange.token(issuer.identity())


def test_issuer_that_does_not_answer_is_unreachable(tokens: Tokens):
    with issuing() as gone:
        identity = gone.identity()
    with pytest.raises(Unreachable, match="gave no keys"):
        Exchange([gone.settings], tokens).token(identity)


def test_shared_secret_among_the_keys_signs_nothing(issuer: Issuer, exchange: Exchange, tokens: Tokens):
    secret = b"published by mistake, so known to everybody"
    issuer.published = {"keys": [{"kty": "oct", "kid": "shared", "k": encoded(secret)}]}
    with pytest.raises(Unauthorised):
        exchange.token(jwt.encode(issuer.claims(), secret, algorithm="HS256", headers={"kid": "shared"}))
    assert tokens.of_project() == []


def test_key_of_another_curve_is_refused(issuer: Issuer, exchange: Exchange):
    key = ec.generate_private_key(ec.SECP384R1())
    issuer.published = {"keys": [public_key("p384", key)]}
    with pytest.raises(Unauthorised):
        exchange.token(jwt.encode(issuer.claims(), key, algorithm="ES384", headers={"kid": "p384"}))


@pytest.mark.parametrize("subject", ["x" * 500, "a\nb", " ", "x" * 129])
def test_long_or_odd_names_of_jobs_stay_apart(issuer: Issuer, exchange: Exchange, subject: str):
    first, second = (exchange.token(issuer.identity(sub=subject + end))[0].name for end in ("\n", "\n\n"))
    assert first != second
    assert first.isprintable()
    assert len(first) <= 128


def test_tokens_of_jobs_that_are_over_are_forgotten(
    issuer: Issuer, exchange: Exchange, tokens: Tokens, database: Database
):
    exchange.token(issuer.identity())
    with database.write() as session:
        session.execute(update(TokenRow).values(expires_at=datetime.now(UTC)))
    token, _ = exchange.token(issuer.identity())
    assert [kept.id for kept in tokens.of_project()] == [token.id]
