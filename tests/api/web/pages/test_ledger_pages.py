"""The ledger: filters, pages, and taking entries back."""

from __future__ import annotations

from pathlib import Path

import pytest

from builders import make_golden, make_toy
from forms import submit


def test_entries_are_listed_newest_first(fresh):
    page = fresh.reader.get("/ledger").text
    assert page.index("<strong>approved</strong>") < page.index("<strong>proposed</strong>")
    assert "checked" in page
    assert "undo…" not in page
    assert "undo…" in fresh.reviewer.get("/ledger").text


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ({"action": "approved"}, 1),
        ({"who": "ada"}, 2),
        ({"who": "ad"}, 0),
        ({"golden": "toy.float32"}, 2),
        ({"golden": "other"}, 0),
        ({"action": "nonsense"}, 2),
    ],
)
def test_filters_are_in_the_address(fresh, query: dict, count: int):
    page = fresh.reader.get("/ledger", params=query).text
    assert page.count("<tr data-entry") == count
    assert ("No entry fits these filters" in page) is (count == 0)


def test_older_entries_are_on_the_next_page(fresh, tmp_path: Path):
    path = tmp_path / "incoming.safetensors"
    for seed in range(55):
        toy = make_toy(name="many", families={"dense": [(2, 2)]}, units=1, seed=seed)
        make_golden(toy).write(path)
        fresh.service.parts.ledger.propose(path, who="ci", project="default")
    page = fresh.reader.get("/ledger").text
    assert page.count("<tr data-entry") == 50
    older = page[page.index('rel="next"') :].split('href="')[1].split('"')[0].replace("&amp;", "&")
    rest = fresh.reader.get(older).text
    assert rest.count("<tr data-entry") == 7
    assert "Newest" in rest
    assert fresh.reader.get("/ledger", params={"cursor": "nonsense"}).status_code == 400


def test_undo_points_the_channel_back_and_needs_a_reason(fresh):
    assert submit(fresh.reviewer, "/ledger/2", "/ledger/2/undo", reason=" ").status_code == 400
    done = submit(fresh.reviewer, "/ledger/2", "/ledger/2/undo", reason="approved by mistake")
    assert "Entry 2 is undone." in done.text
    assert "approved by mistake" in done.text
    assert fresh.service.parts.ledger.channels("toy.float32") == {}
    assert "No version is approved" in fresh.reader.get("/goldens/toy.float32").text


def test_what_cannot_be_undone_has_no_form(fresh):
    assert 'id="undo"' not in fresh.reviewer.get("/ledger/1").text
    assert 'id="undo"' not in fresh.reader.get("/ledger/2").text
    refused = submit(fresh.reviewer, "/ledger/2", "/ledger/1/undo", reason="let me")
    assert refused.status_code == 400
    assert "cannot be undone" in refused.text


def test_entries_of_other_projects_are_not_there(fresh, tmp_path: Path):
    path = tmp_path / "incoming.safetensors"
    make_golden(make_toy(name="secret", seed=4)).write(path)
    fresh.service.parts.ledger.propose(path, who="eve", project="theirs")
    assert "secret" not in fresh.reviewer.get("/ledger").text
    assert fresh.reviewer.get("/ledger/3").status_code == 404
    assert submit(fresh.reviewer, "/ledger/2", "/ledger/3/undo", reason="x").status_code == 404


@pytest.mark.parametrize("number", ["2147483648", "9" * 20, "9" * 5000])
def test_numbers_that_no_database_counts_to_are_not_found(fresh, number: str):
    for path in (f"/ledger/{number}", f"/goldens/toy.float32/v{number}"):
        assert fresh.reader.get(path).status_code == 404
