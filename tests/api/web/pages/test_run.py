"""The page of one run: verdict, law, reasons, environments, table, decisions."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import httpx2
import pytest
from sqlalchemy import delete

from builders import make_record, make_toy
from forms import submit
from gradassay.api.auth.caller import Caller
from gradassay.api.database.tables import AssayRow
from gradassay.api.judging.law import law_id, verdict_law
from gradassay.api.judging.memo import remember
from gradassay.goldens.assay.result import ParameterVerdict, Verdict
from gradassay.goldens.layout import Layout
from gradassay.goldens.report.json import from_json

EP_LAW = law_id(["expert"], "uniform", "w[r,m] = ep")
SOON = f"{datetime.now(UTC) + timedelta(days=9):%Y-%m-%d}"
EVERYONE = Caller(who="test", project="*", scopes=frozenset())


def get(dashboard, path: str, **options: object) -> str:
    answer = dashboard.reviewer.get(path, **options)
    assert answer.status_code == 200, answer.text
    return answer.text


def names_of(page: str) -> list[str]:
    return re.findall(r'<td class="name"><a [^>]*>([^<]+)</a>', page)


def test_divergence_is_told_with_its_law_faults_weights_and_reasons(dashboard):
    run = dashboard.run(weights={"expert": 2.0}, framework="deepspeed")
    page = get(dashboard, f"/runs/{run}")
    assert '<span class="formula">w[r,m] = ep</span>' in page
    assert "2 of 2 expert parameters are too large by a factor of ep = 2" in page
    assert 'href="/faults/deepspeed-6545"' in page
    assert "channel approved points to v1" in page
    assert page.count('<g class="high5"><rect') == 8 + 1, "two micro steps of four ranks, and one in the legend"
    assert "told apart by layout" in page
    assert f"gradassay diff golden:toy.float32@v1 run:{run} --url {dashboard.service.url}" in page
    for suffix in ("json", "md", "html", "xml"):
        report = re.search(rf'href="(/api/v1/assays/\w+/report\.{suffix})"', page)
        assert report is not None
        assert dashboard.reviewer.get(report[1]).status_code == 200


def test_agreement_has_no_finding_and_nothing_to_decide(dashboard):
    page = get(dashboard, f"/runs/{dashboard.run()}")
    assert "all 5 parameters match the golden" in page
    assert "data-accept" not in page
    assert "Nobody has decided anything about this run." in page


def test_names_are_text_and_never_markup(dashboard):
    run = dashboard.run(weights={"dense": 3.0})
    page = get(dashboard, f"/runs/{run}", params={"q": "script"})
    assert "<script>alert(1)" not in page
    assert "\u202e" not in page
    assert r"dense.&lt;script&gt;alert(1)&lt;/script&gt;\u202e.weight" in page
    assert r"dense.\u003cscript\u003ealert(1)" in page, "in the data of the charts"


@pytest.mark.parametrize(
    ("query", "found", "first"),
    [
        ({}, "5 parameters, those that do not agree first", "expert.0.weight"),
        ({"q": "EXPERT.1"}, "1 of 5 parameters", "expert.1.weight"),
        ({"family": "expert"}, "2 of 5 parameters", "expert.0.weight"),
        ({"verdict": "agree", "sort": "-name"}, "3 of 5 parameters", "dense.2.weight"),
        ({"sort": "ratio"}, "5 parameters", None),
    ],
)
@pytest.mark.parametrize("by_htmx", [False, True], ids=["page", "htmx"])
def test_address_restores_the_table(dashboard, query: dict, found: str, first: str | None, by_htmx: bool):
    run = dashboard.run(weights={"expert": 2.0})
    headers = {"HX-Request": "true", "HX-Target": "parameters"} if by_htmx else {}
    page = get(dashboard, f"/runs/{run}", params=query, headers=headers)
    assert page.lstrip().startswith('<div id="parameters"') == by_htmx
    assert found in page
    if first:
        assert names_of(page)[0] == first
    if not by_htmx:
        assert f'value="{query.get("q", "")}" placeholder' in page
        for name in ("family", "verdict"):
            if name in query:
                assert f'<option value="{query[name]}" selected>' in page


def test_table_that_finds_nothing_leads_back(dashboard):
    page = get(dashboard, f"/runs/{dashboard.run()}", params={"q": "nothing", "sort": "ratio"})
    assert "No parameter fits." in page
    assert 'href="/runs/' in page
    assert "?sort=ratio" in page


def test_ten_thousand_parameters_come_in_pages(dashboard):
    run = dashboard.run(weights={"expert": 2.0})
    parts = dashboard.service.parts
    found = parts.runs.find(run, EVERYONE)
    question = parts.assays.question(found)
    judged = parts.assays.judge(question)
    many = tuple(
        ParameterVerdict(
            name=f"layers.{number // 100}.expert.{number % 100}.weight",
            family="expert",
            verdict=Verdict.AGREE if number % 7 else Verdict.DIVERGE,
            ratio=1.0 + number,
            residual=1e-7,
            tolerance=2e-7,
        )
        for number in range(10_000)
    )
    assay = replace(from_json(judged.document), parameters=many)
    with parts.database.write() as session:
        session.execute(delete(AssayRow).where(AssayRow.run == run))
    remember(parts.database, question, assay, holder="")

    page = get(dashboard, f"/runs/{run}", params={"sort": "-ratio", "page": "3"})
    assert "page 3 of 200" in page
    assert names_of(page)[0] == "layers.98.expert.99.weight"
    assert len(names_of(page)) == 50
    assert 'rel="next" href="/runs/' in page
    started = datetime.now(UTC)
    part = get(dashboard, f"/runs/{run}?page=9999", headers={"HX-Request": "true", "HX-Target": "parameters"})
    assert datetime.now(UTC) - started < timedelta(seconds=2)
    assert "page 200 of 200" in part
    assert len(part) < 40_000, "only the table"


def test_no_golden_is_never_a_pass_and_says_what_to_do(dashboard):
    run = dashboard.post(make_record(make_toy(name="other"), layout=Layout(dp=2)))
    page = get(dashboard, f"/runs/{run}")
    assert "never a pass" in page
    assert "gradassay golden build other --dtype float32" in page
    assert 'href="/goldens/other.float32"' in page


def test_unknown_run_and_version_are_pages_of_their_own(dashboard):
    for path in ("/runs/0123456789abcdef", f"/runs/{dashboard.run()}?against=v9", "/nothing"):
        answer = dashboard.reviewer.get(path)
        assert answer.status_code == 404
        assert answer.headers["content-type"].startswith("text/html")
        assert "404 · not-found" in answer.text
    assert dashboard.reviewer.get(f"/runs/{dashboard.run()}?against=../x").status_code == 400
    assert dashboard.reviewer.get(f"/runs/{dashboard.run()}?page=x").status_code == 400


def test_accepting_counts_until_its_day_and_is_shown(dashboard):
    run = dashboard.run(weights={"expert": 2.0}, framework="accepted")
    page = get(dashboard, f"/runs/{run}")
    assay = re.search(r'name="assay" value="(\w+)"', page)
    assert assay is not None
    fields = {"law": EP_LAW, "assay": assay[1], "decision": "accept", "against": "approved"}
    after = dashboard.decide(f"/runs/{run}", **fields, reason="waits for <0.15.4>", expires=SOON)
    assert after.url.path == f"/runs/{run}"
    assert "Accepted. The reason stays with the run." in after.text
    assert f"Accepted by reviewer until {SOON}: waits for &lt;0.15.4&gt;" in re.sub(r"\s+", " ", after.text)
    assert "Accepted. The reason stays" not in get(dashboard, f"/runs/{run}"), "a message is shown once"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"decision": "accept", "reason": "x", "expires": ""}, "accepting needs the last day"),
        ({"decision": "accept", "reason": "x", "expires": "2001-01-01"}, "not within the next"),
        ({"decision": "accept", "reason": " ", "expires": SOON}, "a reason of 1 to"),
        ({"decision": "reject", "reason": ""}, "a reason of 1 to"),
        ({"decision": "shrug", "reason": "x"}, "shrug"),
        ({"decision": "reject", "reason": "x", "law": "other"}, "no assay shows the law"),
    ],
)
def test_decision_that_lacks_something_decides_nothing(dashboard, fields: dict, message: str):
    run = dashboard.run(weights={"expert": 2.0})
    assay = re.search(r'name="assay" value="(\w+)"', get(dashboard, f"/runs/{run}"))
    assert assay is not None
    after = dashboard.decide(f"/runs/{run}", **({"law": EP_LAW, "assay": assay[1]} | fields))
    assert 'class="flash failed"' in after.text
    assert message in after.text
    assert "Nobody has decided anything about this run." in after.text


def test_a_decision_is_taken_back_once(dashboard):
    run = dashboard.run(weights={"expert": 2.0}, framework="withdrawn")
    page = get(dashboard, f"/runs/{run}")
    assay = re.search(r'name="assay" value="(\w+)"', page)
    assert assay is not None
    fields = {"law": EP_LAW, "assay": assay[1], "decision": "accept", "reason": "for now", "expires": SOON}
    after = dashboard.decide(f"/runs/{run}", **fields)
    action = re.search(r'action="(/runs/\w+/decisions/\d+/withdrawal)"', after.text)
    assert action is not None
    back = submit(dashboard.reviewer, f"/runs/{run}", action[1])
    assert "No longer accepted: for now" in back.text
    assert "accepted, withdrawn" in back.text
    assert "/withdrawal" not in back.text
    again = submit(dashboard.reviewer, f"/runs/{run}", action[1])
    assert "was withdrawn before" in again.text
    elsewhere = dashboard.run(weights={"expert": 2.0}, framework="elsewhere")
    other = submit(dashboard.reviewer, f"/runs/{run}", action[1].replace(run, elsewhere))
    assert "is not known" in other.text


def test_reader_sees_no_form_and_cannot_send_one(dashboard):
    run = dashboard.run(weights={"expert": 2.0})
    page = dashboard.reader.get(f"/runs/{run}").text
    assert "takes a token with the scope <code>review</code>" in page
    assert 'name="decision"' not in page
    answer = dashboard.reader.post(
        f"/runs/{run}/decisions",
        data={"law": EP_LAW, "assay": "x", "decision": "reject", "reason": "x"},
        headers={"Origin": dashboard.service.url},
    )
    assert answer.status_code == 403
    assert answer.headers["content-type"].startswith("text/html")


def test_incomplete_run_is_decided_about_by_its_verdict(dashboard):
    whole = make_record(dashboard.toy, layout=Layout(dp=4, ep=2, accum=2), seed=99)
    capture = whole.captures["reduced.1"]
    rows = {name: getattr(capture, name)[:-1] for name in ("sketch", "norm2", "absmax", "nonfinite", "present")}
    header = replace(whole.header, parameters=whole.header.parameters[:-1])
    run = dashboard.post(replace(whole, header=header, captures={"reduced.1": replace(capture, **rows)}))
    page = get(dashboard, f"/runs/{run}")
    assert "the record lacks 1 parameter (expert.1.weight) of the golden" in page
    assay = re.search(r'name="assay" value="(\w+)"', page)
    assert assay is not None
    law = verdict_law("incomplete")
    assert f'name="law" value="{law}"' in page
    after = dashboard.decide(f"/runs/{run}", law=law, assay=assay[1], decision="reject", reason="capture is cut short")
    assert "Rejected. The reason stays with the run." in after.text
    assert "capture is cut short" in after.text


def test_stranger_is_sent_to_the_login_and_back(dashboard):
    run = dashboard.run()
    with httpx2.Client(base_url=dashboard.service.url, headers={"Accept": "text/html"}) as stranger:
        answer = stranger.get(f"/runs/{run}?q=x")
        assert answer.status_code == 303
        assert answer.headers["location"] == f"/login?next=%2Fruns%2F{run}%3Fq%3Dx"
        assert stranger.get("/login").status_code == 200
