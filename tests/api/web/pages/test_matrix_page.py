"""Layout matrix: a verdict a cell, and filters that the address keeps."""

from __future__ import annotations

import pytest

from gradassay.goldens.layout import Layout


@pytest.fixture
def matrix(fresh):
    """Two strategies in two layouts."""
    for layout in (Layout(dp=2), Layout(dp=4, ep=2, accum=2)):
        fresh.reviewer.get(f"/runs/{fresh.run(layout=layout)}")
    wrong = {"layout": Layout(dp=4, ep=2, accum=2), "strategy": "zero2", "framework": "deepspeed"}
    fresh.reviewer.get(f"/runs/{fresh.run(weights={'expert': 2.0}, **wrong)}")
    return fresh


def test_cell_is_the_newest_verdict_with_its_sentence(matrix):
    page = matrix.reader.get("/matrix").text
    assert page.count('class="cell agree" href="/runs/') == 2
    assert page.count('class="cell diverge" href="/runs/') == 1
    assert "w[r,m] = ep" in page
    assert "<span>diverge</span>" in page
    assert "What the letters mean" in page


@pytest.mark.parametrize("headers", [{}, {"HX-Request": "true", "HX-Target": "view"}], ids=["page", "htmx"])
def test_filters_are_in_the_address(matrix, headers: dict):
    query = {"problem": "toy", "dtype": "float32", "framework": "deepspeed"}
    page = matrix.reader.get("/matrix", params=query, headers=headers).text
    assert 'href="/runs/' in page
    assert "cell agree" not in page.replace('class="cell agree"><b', "")
    assert '<option value="deepspeed" selected>' in page
    assert ('<html lang="en">' in page) is not bool(headers)


def test_filters_that_nothing_fits_can_be_cleared(matrix):
    page = matrix.reader.get("/matrix", params={"problem": "toy", "dtype": "bfloat16"}).text
    assert "No run fits these filters" in page
    assert 'href="/matrix"' in page


def test_without_runs_it_says_how_to_post(fresh):
    page = fresh.reader.get("/matrix").text
    assert "No runs yet" in page
    assert f"gradassay post run.safetensors --url {fresh.service.url}" in page
