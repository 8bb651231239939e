"""Settings: what the service runs with, and tokens that are shown once."""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx2
import pytest

from forms import submit


@pytest.fixture
def operator(fresh) -> Iterator[httpx2.Client]:
    """A browser that came by a login link of the service's machine."""
    with httpx2.Client(
        base_url=fresh.service.url, timeout=30, follow_redirects=True, headers={"Accept": "text/html"}
    ) as client:
        client.get(fresh.service.parts.logins.link(who="ada", project="default")).raise_for_status()
        yield client


def shown_secret(page: str) -> str:
    found = re.findall(r"<code>(gat_[\w-]+)</code>", page)
    assert len(found) == 1
    return found[0]


def works(fresh, secret: str) -> bool:
    answer = fresh.service.anonymous.get("/api/v1/runs", headers={"Authorization": f"Bearer {secret}"})
    return answer.status_code == 200


def test_token_is_shown_once_and_works_until_it_is_revoked(fresh, operator):
    made = submit(operator, "/settings", "/settings/tokens", name="ci <b>", project="default", scopes=["post"], days=7)
    assert made.status_code == 201
    assert made.headers["cache-control"] == "no-store"
    secret = shown_secret(made.text)
    assert works(fresh, secret)
    page = operator.get("/settings").text
    assert secret not in page
    assert "ci &lt;b&gt;" in page
    assert "in 6 days" in page
    token = next(one for one in fresh.service.parts.tokens.of_project() if one.name == "ci <b>")
    assert [str(scope) for scope in token.scopes] == ["post"]
    revoked = submit(operator, "/settings", f"/settings/tokens/{token.id}/revoke")
    assert "is revoked" in revoked.text
    assert not works(fresh, secret)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"name": " "}, "cannot name a token"),
        ({"project": "no/slash"}, "project"),
        ({"project": "*", "scopes": ["post"]}, "belongs to one project"),
        ({"days": "0"}, "is no number of days"),
        ({"days": "many"}, "is no number of days"),
        ({"days": "9" * 5000}, "is no number of days"),
    ],
)
def test_token_that_makes_no_sense_is_refused_and_the_form_kept(fresh, operator, fields: dict, words: str):
    before = len(fresh.service.parts.tokens.of_project())
    refused = submit(operator, "/settings", "/settings/tokens", **{"name": "ci", "project": "default", **fields})
    assert refused.status_code == 400
    assert words in refused.text
    assert f'value="{fields.get("days", "")}"' in refused.text
    assert len(fresh.service.parts.tokens.of_project()) == before


def test_unknown_scope_is_refused(fresh, operator):
    answer = submit(operator, "/settings", "/settings/tokens", name="ci", project="default", scopes=["root"])
    assert answer.status_code == 400


def test_who_came_by_a_token_neither_sees_nor_makes_tokens(fresh):
    page = fresh.reviewer.get("/settings").text
    assert "needs the scope <code>admin</code>" in page
    assert "New token" not in page
    fields = {"name": "more", "project": "default", "scopes": ["admin"]}
    assert submit(fresh.reviewer, "/settings", "/settings/tokens", **fields).status_code == 403
    token = fresh.service.parts.tokens.of_project()[0]
    assert submit(fresh.reviewer, "/settings", f"/settings/tokens/{token.id}/revoke").status_code == 403


def test_facts_are_shown_without_secrets(fresh):
    page = fresh.reader.get("/settings").text
    assert "dir:" in page
    assert "1 person" in page
    assert "Log out" in page
