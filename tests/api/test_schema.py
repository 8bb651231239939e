"""api/openapi.json: what the code says, and what the running service does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import openapi
import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis import checks
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from builders import make_golden, make_record, make_toy
from gradassay.goldens.layout import Layout
from served import Service, serving

CHECKS = [
    checks.not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
EXAMPLES = 12
schema = schemathesis.openapi.from_path(str(openapi.PATH))


@dataclass(frozen=True, slots=True, kw_only=True)
class Lived:
    """A service that holds something, and the names of that as path parameters have them."""

    service: Service
    known: dict[str, str]


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lived]:
    folder = tmp_path_factory.mktemp("schema")
    toy = make_toy(families={"dense": [(24, 16)], "expert": [(40, 30)]}, units=8)
    golden = make_golden(toy)
    golden.write(folder / "golden.safetensors")
    record = make_record(toy, layout=Layout(dp=4, ep=2, accum=2), weights={"expert": 2.0}).to_bytes()
    with serving(folder, uploads=folder) as service:
        run = service.client.post("/api/v1/runs", content=record).raise_for_status().json()["id"]
        base = f"/api/v1/goldens/{golden.name}"
        content = (folder / "golden.safetensors").read_bytes()
        service.client.post(f"{base}/versions", content=content).raise_for_status()
        decision = {"version": 1, "expected_version": 0, "why": "the first"}
        service.client.put(f"{base}/channels/approved", json=decision).raise_for_status()
        judged = service.client.get(f"/api/v1/runs/{run}/assay", params={"wait": 30}).raise_for_status()
        known = {"run": run, "assay": judged.json()["id"], "name": golden.name, "version": "1"}
        yield Lived(service=service, known=known | {"channel": "approved"})


def test_committed_document_is_that_of_the_code():
    assert openapi.PATH.read_text(encoding="utf-8") == openapi.document(), "run make openapi, and commit what changed"


def test_every_operation_has_a_name_a_text_and_failures():
    names = []
    for path, methods in schema.raw_schema["paths"].items():
        for method, operation in methods.items():
            names.append(operation["operationId"])
            assert operation["summary"], (path, method)
            assert operation["description"], (path, method)
            assert {"4XX", "5XX"} <= operation["responses"].keys()
            assert "422" not in operation["responses"]
    assert len(names) == len(set(names))


@schema.parametrize()
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.filter_too_much],
)
def test_service_does_what_the_document_says(case: schemathesis.Case, lived: Lived):
    """Each request once as it was made up, and once about something that exists."""
    headers = dict(lived.service.client.headers)
    sent = {name: headers[name] for name in headers if name.lower() == "authorization"}
    case.call_and_validate(base_url=lived.service.url, headers=sent, checks=CHECKS)
    known = {name: lived.known[name] for name in case.path_parameters or {} if name in lived.known}
    if known:
        case.path_parameters = {**case.path_parameters, **known}
        case.call_and_validate(base_url=lived.service.url, headers=sent, checks=CHECKS)
