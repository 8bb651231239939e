"""Bodies that are read into memory end somewhere."""

from __future__ import annotations

import pytest

from gradassay.api.operations import bounded
from served import Service

JSON = {"Content-Type": "application/json"}
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@pytest.mark.parametrize(("path", "headers"), [("/login", FORM), ("/api/v1/tokens/exchange", JSON)])
def test_strangers_send_little(service: Service, path: str, headers: dict[str, str]):
    enough = service.anonymous.post(path, content=b" " * bounded.MOST_BYTES_OF_STRANGERS, headers=headers)
    assert enough.status_code in (400, 401)
    refused = service.anonymous.post(path, content=b" " * (bounded.MOST_BYTES_OF_STRANGERS + 1), headers=headers)
    assert (refused.status_code, refused.json()["code"]) == (413, "too-large")


def test_callers_send_more_and_files_have_a_limit_of_their_own(
    service: Service, record: bytes, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(bounded, "MOST_BYTES", 1000)
    assert len(record) > 1000
    assert service.client.post("/api/v1/runs", content=record).status_code == 201
    pieces = (b" " * 600 for _ in range(2))
    refused = service.client.post("/api/v1/assays", content=pieces, headers=JSON)
    assert (refused.status_code, refused.json()["code"]) == (413, "too-large")
