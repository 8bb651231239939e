"""Static files: named by content, kept for good, and all from here."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from pathlib import Path

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from gradassay.api.problem import add_problem_handlers
from gradassay.api.web.static_files import router, static_files, static_url

ROOT = Path(__file__).parents[3]
VENDOR = ROOT / "ci" / "vendor"


@pytest.fixture(scope="module")
def client() -> TestClient:
    app = FastAPI()
    add_problem_handlers(app)
    app.include_router(router)
    return TestClient(app)


@pytest.mark.parametrize(
    ("name", "media_type"),
    [
        ("style.css", "text/css; charset=utf-8"),
        ("heatmap.css", "text/css; charset=utf-8"),
        ("app.js", "text/javascript; charset=utf-8"),
        ("icon.svg", "image/svg+xml"),
        ("vendor/htmx.js", "text/javascript; charset=utf-8"),
        ("vendor/LICENCES.txt", "text/plain; charset=utf-8"),
    ],
)
def test_file_is_kept_for_good_under_the_name_of_its_content(client: TestClient, name: str, media_type: str):
    stem, suffix = name.rsplit(".", 1)
    assert re.fullmatch(rf"/static/{stem}\.[0-9a-f]{{12}}\.{suffix}", static_url(name))
    answer = client.get(static_url(name))
    assert answer.status_code == 200
    assert answer.headers["content-type"] == media_type
    assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.content == static_files()[name].content


@pytest.mark.parametrize(
    "path", ["app.js", "app.000000000000.js", "../page.py", "%2e%2e/page.py", "vendor", "vendor/../app.js", ""]
)
def test_nothing_else_is_served(client: TestClient, path: str):
    assert client.get(f"/static/{path}").status_code == 404


def test_own_files_ask_nobody_else():
    for name, file in static_files().items():
        if not name.startswith("vendor/"):
            addresses = re.findall(rb"https?://[^\s\"']+", file.content)
            assert set(addresses) <= {b"http://www.w3.org/2000/svg"}, name


def test_vendored_scripts_are_those_of_the_lock_file():
    locked = json.loads((VENDOR / "package-lock.json").read_text())["packages"]
    licences = files("gradassay.api.web").joinpath("static", "vendor", "LICENCES.txt").read_text()
    for name in ("echarts", "zrender", "tslib", "htmx.org"):
        assert f"{name} {locked[f'node_modules/{name}']['version']}: LICENSE" in licences
    assert locked["node_modules/htmx.org"]["version"].encode() in static_files()["vendor/htmx.js"].content
    assert locked["node_modules/echarts"]["version"].encode() in static_files()["vendor/echarts.js"].content


def test_lock_file_names_no_host():
    assert "://" not in re.sub(r'"(url|funding)": "[^"]*"', "", (VENDOR / "package-lock.json").read_text())


def test_charts_evaluate_no_text():
    assert not re.search(rb"\beval\(|new Function", static_files()["vendor/echarts.js"].content)
