from __future__ import annotations

import json
from typing import Any

import pytest

from gradassay.api.auth.issuer import OidcIssuer
from gradassay.api.settings import ServiceSettings
from gradassay.goldens.errors import UsageError

ISSUER = {
    "issuer": "https://token.actions.githubusercontent.com",
    "audience": "gradassay",
    "jwks_uri": "https://token.actions.githubusercontent.com/.well-known/jwks",
    "claim": "repository",
    "projects": {"team/training": "training"},
}


def load(monkeypatch: pytest.MonkeyPatch, value: str) -> tuple[OidcIssuer, ...]:
    monkeypatch.setenv("GRADASSAY_OIDC_ISSUERS", value)
    return ServiceSettings.load(store="dir:unused").oidc_issuers


def test_issuers_are_json_in_the_environment(monkeypatch: pytest.MonkeyPatch):
    assert load(monkeypatch, json.dumps([ISSUER])) == (OidcIssuer.model_validate(ISSUER),)
    assert load(monkeypatch, "") == ()


@pytest.mark.parametrize(
    "uri", ["http://issuer.example/keys", "file:///keys.json", "//issuer.example/keys", "http://127.0.0.1.example/keys"]
)
def test_keys_come_by_https_or_from_this_machine(monkeypatch: pytest.MonkeyPatch, uri: str):
    with pytest.raises(UsageError, match=r"GRADASSAY_OIDC_ISSUERS, 0 = .*must be https"):
        load(monkeypatch, json.dumps([{**ISSUER, "jwks_uri": uri}]))
    assert load(monkeypatch, json.dumps([{**ISSUER, "jwks_uri": "http://127.0.0.1:1/keys"}]))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"scopes": ["admin"]}, r"0\.scopes"),
        ({"audience": ""}, r"0\.audience"),
        ({"projects": {"team/training": "*"}}, r"0\.projects\.team/training"),
        ({"issuer": "x" * 121}, r"0\.issuer"),
    ],
)
def test_issuer_that_makes_no_sense_is_named(monkeypatch: pytest.MonkeyPatch, change: dict[str, Any], said: str):
    with pytest.raises(UsageError, match=f"GRADASSAY_OIDC_ISSUERS, {said}"):
        load(monkeypatch, json.dumps([ISSUER | change]))


def test_text_that_is_no_json_is_refused(monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(UsageError, match="oidc_issuers"):
        load(monkeypatch, "[{")
