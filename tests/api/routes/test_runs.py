"""Runs over HTTP: posted, listed, shown, and their assays."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from builders import Toy, make_golden, make_record
from gradassay.api.judging.claims import Claims
from gradassay.api.ledger.deciding import Decision
from gradassay.goldens.assay.compare import assay_record
from gradassay.goldens.golden import read_golden
from gradassay.goldens.layout import Layout
from gradassay.goldens.record import read_record
from gradassay.goldens.reference import GoldenReference
from gradassay.goldens.report import render
from gradassay.goldens.report.json import from_json
from judged import LAYOUT
from served import Service

RUNS = "/api/v1/runs"
Mint = Callable[..., dict[str, str]]


def approve(service: Service, golden: Path, *, project: str = "default") -> int:
    """Proposes the golden and approves it."""
    ledger = service.parts.ledger
    version = ledger.propose(golden, who="ci", project=project)
    ledger.decide(version.name, version.version, Decision.APPROVE, who="ada", why="because")
    return version.version


def test_posted_run_is_kept_once(service: Service, record: bytes):
    digest = hashlib.sha256(record)
    header = {"Content-Digest": f"sha-256=:{base64.b64encode(digest.digest()).decode()}:"}
    first = service.client.post(RUNS, content=record, headers=header)
    again = service.client.post(RUNS, content=iter([record[:1000], record[1000:]]))
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json() == again.json()
    run = first.json()
    assert first.headers["location"] == again.headers["location"] == f"{RUNS}/{run['id']}"
    assert run["digest"] == f"sha256:{digest.hexdigest()}"
    assert (run["project"], run["layout"], run["dtype_profile"]) == (
        "default",
        "dp4.ep2.accum2",
        "float32/float32/float32",
    )
    assert (run["posted_by"], run["posted_at"][-1]) == ("test", "Z")
    assert service.store.record_path(run["id"]).read_bytes() == record
    assert not list(service.uploads.iterdir())


def test_run_is_shown_by_id_digest_and_the_beginning_of_either(service: Service, record: bytes):
    run = service.client.post(RUNS, content=record).json()
    for reference in (run["id"], run["digest"], run["digest"][7:], run["id"][:8], run["digest"][:20]):
        shown = service.client.get(f"{RUNS}/{reference}")
        assert (shown.status_code, shown.json()["id"]) == (200, run["id"])
    assert shown.json()["header"]["environment"] == {"device": "cpu"}
    assert shown.json()["header"]["parameter_count"] == 3
    assert "parameters" not in shown.json()["header"]
    for unknown in ("0123456789abcdef", run["id"][:7], "nonsense", "%00", "..", "a" * 5000):
        answer = service.client.get(f"{RUNS}/{unknown}")
        assert (answer.status_code, answer.json()["code"]) == (404, "not-found")


def test_runs_are_listed_newest_first_in_pages_that_a_newer_run_does_not_shift(service: Service, toy: Toy):
    def post(seed: int, **options: object) -> str:
        content = make_record(toy, layout=Layout(dp=2), seed=seed, **options).to_bytes()
        return service.client.post(RUNS, content=content).json()["id"]

    posted = [post(seed) for seed in range(5)]
    first = service.client.get(RUNS, params={"limit": 2}).json()
    post(9)
    second = service.client.get(RUNS, params={"limit": 2, "cursor": first["next"]}).json()
    third = service.client.get(RUNS, params={"limit": 2, "cursor": second["next"]}).json()
    assert [run["id"] for page in (first, second, third) for run in page["items"]] == posted[::-1]
    assert third["next"] is None
    other = post(10, strategy="fsdp2", framework="deepspeed")
    for chosen in ({"strategy": "fsdp2"}, {"framework": "deepspeed"}, {"strategy": "fsdp2", "dtype": "float32"}):
        assert [run["id"] for run in service.client.get(RUNS, params=chosen).json()["items"]] == [other]
    assert service.client.get(RUNS, params={"problem": "\0"}).json() == {"items": [], "next": None}
    for wrong in ({"cursor": "nonsense!"}, {"limit": 0}, {"limit": 10**6}):
        assert service.client.get(RUNS, params=wrong).status_code == 400


def test_another_projects_run_is_not_there(service: Service, mint: Mint, record: bytes, golden: Path):
    mine = service.client.post(RUNS, content=record).json()["id"]
    theirs = mint(service, "post", "review", "admin", project="other")
    for path in ("", "/assay", "/reviews"):
        answer = service.client.get(f"{RUNS}/{mine}{path}", headers=theirs)
        assert (answer.status_code, answer.json()["code"]) == (404, "not-found")
    assert service.client.get(RUNS, headers=theirs).json()["items"] == []
    posted = service.client.post(RUNS, content=record, headers=theirs)
    assert (posted.status_code, posted.json()["project"]) == (201, "other")
    assert posted.json()["id"] != mine
    approve(service, golden)
    answer = service.client.get(f"{RUNS}/{posted.json()['id']}/assay", headers=theirs)
    assert (answer.status_code, answer.json()["code"]) == (404, "no-golden")
    everywhere = mint(service, project="*")
    assert len(service.client.get(RUNS, headers=everywhere).json()["items"]) == 2


def test_scope_is_needed_to_post_and_a_token_to_read(service: Service, mint: Mint, record: bytes):
    assert service.anonymous.get(RUNS).status_code == 401
    assert service.anonymous.post(RUNS, content=record).status_code == 401
    refused = service.client.post(RUNS, content=record, headers=mint(service, "review", "admin"))
    assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    assert service.is_untouched()


def test_assay_names_what_is_wrong_and_is_not_sent_twice(service: Service, record: bytes, golden: Path):
    approve(service, golden)
    run = service.client.post(RUNS, content=record).json()["id"]
    answer = service.client.get(f"{RUNS}/{run}/assay", params={"wait": 30})
    assert answer.status_code == 200
    assay = answer.json()
    assert (assay["verdict"], assay["exit"]) == ("diverge", 1)
    assert assay["findings"][0]["families"] == ["expert"]
    assert assay["findings"][0]["law"]["value"] == pytest.approx(2.0, rel=1e-5)
    assert (assay["a"]["ref"], assay["b"]["ref"]) == ("golden:toy.float32@v1", f"run:{run}")
    assert assay["choice"]["version"] == 1
    assert assay["choice"]["reasons"][0] == "channel approved points to v1"
    assert assay["accepted"]["every_finding"] is False
    etag = answer.headers["etag"]
    for known in (etag, f'"other", W/{etag}', "*"):
        same = service.client.get(f"{RUNS}/{run}/assay", params={"wait": 30}, headers={"If-None-Match": known})
        assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", etag)
    other = service.client.get(f"{RUNS}/{run}/assay", params={"wait": 30}, headers={"If-None-Match": '"other"'})
    assert other.text == answer.text
    explicit = service.client.get(f"{RUNS}/{run}/assay", params={"wait": 30, "against": "v1"}).json()
    assert (explicit["id"], explicit["choice"]["channel"]) == (assay["id"], None)
    assert service.client.get(f"/api/v1/assays/{assay['id']}").json()["findings"] == assay["findings"]


def test_document_is_what_diff_prints(service: Service, record: bytes, golden: Path):
    approve(service, golden)
    run = service.client.post(RUNS, content=record).json()["id"]
    id = service.client.get(f"{RUNS}/{run}/assay", params={"wait": 30}).json()["id"]
    printed = assay_record(read_record(service.store.record_path(run)), read_golden(golden))
    served = from_json(service.client.get(f"/api/v1/assays/{id}/report.json").json())
    assert (served.findings, served.parameters, served.notes) == (printed.findings, printed.parameters, printed.notes)
    reports = {"json": "json", "md": "markdown", "html": "html", "xml": "junit"}
    for kind, format in reports.items():
        report = service.client.get(f"/api/v1/assays/{id}/report.{kind}")
        assert (report.status_code, report.text) == (200, render(served, format))
    assert service.client.get(f"/api/v1/assays/{id}/report.exe").status_code == 400


def test_assay_that_takes_longer_than_one_waits_is_pending_and_then_there(
    service: Service, record: bytes, golden: Path
):
    parts = service.parts
    run = service.client.post(RUNS, content=record).json()["id"]
    parts.ledger.propose(golden, who="ci", project="default")
    question = parts.assays.literally(parts.runs.of_id(run), GoldenReference(name="toy.float32", version=1))
    with Claims(parts.database, "another replica").held(question.id) as mine:
        assert mine
        approve(service, golden)
        for wait in (0, 0.2):
            pending = service.client.get(f"{RUNS}/{run}/assay", params={"wait": wait})
            assert (pending.status_code, pending.json()["id"]) == (202, question.id)
            assert int(pending.headers["retry-after"]) >= 1
    assert service.client.get(f"{RUNS}/{run}/assay", params={"wait": 30}).status_code == 200


def test_tag_changes_with_the_approved_version(service: Service, toy: Toy, record: bytes, golden: Path):
    approve(service, golden)
    run = service.client.post(RUNS, content=record).json()["id"]
    first = service.client.get(f"{RUNS}/{run}/assay", params={"wait": 30})
    make_golden(toy, noise=1e-6).write(golden)
    assert approve(service, golden) == 2
    second = service.client.get(
        f"{RUNS}/{run}/assay", params={"wait": 30}, headers={"If-None-Match": first.headers["etag"]}
    )
    assert (second.status_code, second.json()["choice"]["version"]) == (200, 2)
    assays = service.client.get(f"{RUNS}/{run}").json()["assays"]
    assert [assay["version"] for assay in assays] == [2, 1]


def test_assay_without_a_golden_is_never_a_pass(service: Service, record: bytes, golden: Path):
    run = service.client.post(RUNS, content=record).json()["id"]
    for reason in ("there is no golden toy.float32", "channel approved of golden toy.float32 points to no version"):
        answer = service.client.get(f"{RUNS}/{run}/assay")
        assert (answer.status_code, answer.json()["code"]) == (404, "no-golden")
        assert answer.json()["facts"]["reasons"] == reason
        service.parts.ledger.propose(golden, who="ci", project="default")
    assert answer.json()["facts"]["skipped"] == "v1: proposed, not approved"
    for against, status, code in (("nightly", 404, "no-golden"), ("v9", 404, "not-found"), ("No way", 400, "usage")):
        answer = service.client.get(f"{RUNS}/{run}/assay", params={"against": against})
        assert (answer.status_code, answer.json()["code"]) == (status, code)


def test_damaged_store_is_the_services_error(service: Service, record: bytes, golden: Path):
    approve(service, golden)
    run = service.client.post(RUNS, content=record).json()["id"]
    service.client.get(f"{RUNS}/{run}/assay", params={"wait": 30})
    service.store.record_path(run).write_bytes(b"damaged")
    known = read_golden(golden)
    replace(known, header=replace(known.header, created="2027-01-01T00:00:00Z")).write(golden)
    service.parts.ledger.propose(golden, who="ci", project="default")
    answer = service.client.get(f"{RUNS}/{run}/assay", params={"wait": 30, "against": "v2"})
    assert (answer.status_code, answer.json()["code"]) == (500, "store")
    assert "damaged" in answer.json()["detail"]


def test_posted_run_is_judged_without_being_asked_for(service: Service, toy: Toy, golden: Path):
    approve(service, golden)
    posted = [
        service.client.post(RUNS, content=make_record(toy, layout=LAYOUT, seed=seed).to_bytes()).json()["id"]
        for seed in range(3)
    ]
    for run in posted:
        question = service.parts.assays.question(service.parts.runs.of_id(run))
        assert service.parts.assays.judge(question, wait_s=60) is not None
    assert service.parts.assays.unjudged(limit=10) == []
