"""What the documentation must say: every setting, route and error, and a compose file that fits the code."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from gradassay.api.app import create_app
from gradassay.api.settings import ServiceSettings
from gradassay.client.settings import ClientSettings
from gradassay.goldens.errors import KINDS
from gradassay.goldens.settings import Settings

ROOT = Path(__file__).parents[2]
STORES = (ROOT / "docs" / "stores.md").read_text()
SERVICE = (ROOT / "docs" / "service.md").read_text()


def test_every_setting_is_documented():
    for name in Settings.model_fields:
        assert f"| `GRADASSAY_{name.upper()}` |" in STORES
    for name in ServiceSettings.model_fields.keys() - Settings.model_fields.keys():
        assert f"| `GRADASSAY_{name.upper()}` |" in SERVICE


def test_documented_variables_exist():
    fields = (*ServiceSettings.model_fields, *ClientSettings.model_fields, "url")
    known = {f"GRADASSAY_{name.upper()}" for name in fields}
    assert set(re.findall(r"GRADASSAY_[A-Z_]+", STORES + SERVICE)) <= known


def test_every_route_is_documented():
    routes = create_app(ServiceSettings(store="dir:unused")).openapi()["paths"]
    for path, methods in routes.items():
        for method in methods:
            assert f"| `{method.upper()} {path}" in SERVICE


def test_every_error_is_documented_with_its_status():
    for code, kind in KINDS.items():
        assert f"| `{code}` | {kind.http_status} | {kind.meaning} |" in SERVICE


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    return yaml.safe_load((ROOT / "docker-compose.yml").read_text())


def test_services_wait_for_healthy_ones_of_a_fixed_release(compose: dict[str, Any]):
    services = compose["services"]
    assert {"postgres", "s3", "mlflow", "api"} <= services.keys()
    for name, service in services.items():
        for needed, condition in service.get("depends_on", {}).items():
            assert condition["condition"] == (
                "service_healthy" if "healthcheck" in services[needed] else "service_completed_successfully"
            )
        assert "healthcheck" in service or service.get("restart") is None, name
        assert "build" in service or re.search(r":\d", service["image"]), name


def test_ports_are_of_this_machine_and_secrets_can_be_set(compose: dict[str, Any]):
    for service in compose["services"].values():
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))
    text = (ROOT / "docker-compose.yml").read_text()
    for line in text.splitlines():
        if re.search(r"PASSWORD:|SECRET_ACCESS_KEY:|secretKey", line):
            assert re.search(r"\$\{\w+:-gradassay-local\}", line), line


def test_mlflow_knows_the_name_that_the_service_calls_it_by(compose: dict[str, Any]):
    store = compose["services"]["api"]["environment"]["GRADASSAY_STORE"]
    allowed = next(word for word in compose["services"]["mlflow"]["command"] if word.startswith("--allowed-hosts="))
    assert store.removeprefix("http://") in allowed.removeprefix("--allowed-hosts=").split(",")
    assert "postgresql+psycopg://" in " ".join(compose["services"]["mlflow"]["command"])
