"""Catalogue of public faults."""

from __future__ import annotations

from gradassay.goldens.faults import load_catalogue


def test_every_fault_has_a_page(dashboard):
    listed = dashboard.reader.get("/faults").text
    for fault in load_catalogue():
        assert f'href="/faults/{fault.id}"' in listed
        page = dashboard.reader.get(f"/faults/{fault.id}")
        assert page.status_code == 200
        assert f"gradassay faults show {fault.id}" in page.text
    assert dashboard.reader.get("/faults/nonsense").status_code == 404


def test_look_alikes_are_listed_with_their_law(fresh):
    run = fresh.run(weights={"expert": 2.0}, framework="deepspeed")
    fresh.reviewer.get(f"/runs/{run}")
    assert "1 run like it" in fresh.reader.get("/faults").text
    page = fresh.reader.get("/faults/deepspeed-6545").text
    assert f'href="/runs/{run}"' in page
    assert "None of this project" in fresh.reader.get("/faults/deepspeed-4957").text


def test_search_needs_all_words(dashboard):
    page = dashboard.reader.get("/faults", params={"q": "zero expert-data-parallel"}).text
    assert "1 of" in page
    assert "deepspeed-6545" in page
    nothing = dashboard.reader.get("/faults", params={"q": '"><script>'}).text
    assert "No fault holds all of these words" in nothing
    assert "<script>" not in nothing.replace("<script src", "")


def test_nothing_is_loaded_from_elsewhere(dashboard):
    for path in ("/faults", "/faults/deepspeed-6545"):
        assert "https://" not in dashboard.reader.get(path).text
