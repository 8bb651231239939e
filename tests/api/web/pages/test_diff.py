"""Any two runs side by side."""

from __future__ import annotations


def test_two_runs_are_compared(dashboard):
    a, b = dashboard.run(), dashboard.run(weights={"expert": 2.0}, framework="deepspeed")
    page = dashboard.reviewer.get("/diff", params={"a": a, "b": b})
    assert page.status_code == 200
    assert "are too large by a factor of ep = 2" in page.text
    assert f"gradassay diff run:{a} run:{b} --url {dashboard.service.url}" in page.text
    assert f'href="/diff?a={b}&amp;b={a}"' in page.text
    assert "Ratio to A" in page.text
    assert "only a golden tells" in page.text


def test_table_keeps_both_runs_in_its_address(dashboard):
    a, b = dashboard.run(), dashboard.run(weights={"expert": 2.0})
    page = dashboard.reviewer.get("/diff", params={"a": a, "b": b, "family": "expert", "sort": "-ratio"}).text
    assert "2 of 5 parameters" in page
    assert f'<input type="hidden" name="a" value="{a}">' in page
    assert f'href="/diff?a={a}&amp;b={b}&amp;family=expert&amp;sort=ratio"' in page


def test_without_two_runs_it_offers_them(fresh):
    assert "There are not yet two runs to compare" in fresh.reviewer.get("/diff").text
    runs = [fresh.run(), fresh.run()]
    page = fresh.reviewer.get("/diff", params={"b": runs[0]}).text
    assert "Choose two runs" in page
    assert f'name="b" value="{runs[0]}"' in page
    for run in runs:
        assert f'<option value="{run}">ddp in dp4.ep2.accum2, toy float32' in page


def test_unknown_run_is_named_and_can_be_mended(dashboard):
    page = dashboard.reviewer.get("/diff", params={"a": "<none>", "b": dashboard.run()})
    assert page.status_code == 404
    assert "run &#39;&lt;none&gt;&#39; is not known" in page.text
    assert 'name="a" value="&lt;none&gt;"' in page.text
