"""Parameter history: the values in a table, the same in the data of the plots."""

from __future__ import annotations

import json
import re


def points(page: str) -> list[dict]:
    found = re.search(r'<script type="application/json" id="points">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def test_table_and_plot_tell_the_same(fresh):
    for weight in (2.0, 1.0):
        fresh.reviewer.get(f"/runs/{fresh.run(weights={'expert': weight})}")
    page = fresh.reader.get("/history", params={"parameter": "expert.0.weight"}).text
    assert [round(point["ratio"]) for point in points(page)] == [2, 1]
    assert [point["verdict"] for point in points(page)] == ["diverge", "agree"]
    table = page[page.index("<h2>Values</h2>") :]
    assert table.index("agree") < table.index("diverge")


def test_worst_parameter_is_shown_where_none_is_asked_for(fresh):
    fresh.reviewer.get(f"/runs/{fresh.run(weights={'expert.1.weight': 3.0})}")
    page = fresh.reader.get("/history").text
    assert 'value="expert.1.weight"' in page
    assert "farthest beyond its tolerance" in page


def test_names_from_files_stay_text(fresh):
    fresh.reviewer.get(f"/runs/{fresh.run()}")
    page = fresh.reader.get("/history", params={"parameter": "dense.<script>alert(1)</script>\u202e.weight"}).text
    assert "<script>alert" not in page
    assert "\u202e" not in page
    assert len(points(page)) == 1


def test_empty_states_say_what_to_do(fresh):
    assert "No runs yet" in fresh.reader.get("/history").text
    fresh.run()
    fresh.reviewer.get(f"/runs/{fresh.run()}")
    page = fresh.reader.get("/history", params={"parameter": "nonsense"}).text
    assert "No assayed run has a parameter of this name" in page
    page = fresh.reader.get("/history", params={"framework": "nonsense"}).text
    assert 'href="/history"' in page
