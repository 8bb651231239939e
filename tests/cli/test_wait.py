"""`gradassay wait` and `gradassay post --wait` against a running service: every exit code as a CI job meets it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from builders import Toy
from gradassay.api.ledger.deciding import Decision
from gradassay.goldens.golden import Golden
from gradassay.goldens.layout import Layout
from gradassay.goldens.record import Record
from scripted import Answer, answering, free_port
from served import Service, mint

if TYPE_CHECKING:
    from conftest import Files, Ran

Command = Callable[..., "Ran"]
LAYOUT = Layout(dp=4, ep=2, accum=3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Posted:
    """Runs of a service whose golden is approved, by what is wrong with them."""

    healthy: str
    doubled: str


def post(service: Service, file: Path) -> str:
    answer = service.client.post("/api/v1/runs", content=file.read_bytes())
    answer.raise_for_status()
    run: str = answer.json()["id"]
    return run


def approve(service: Service, file: Path) -> None:
    version = service.parts.ledger.propose(file, who="ada", project="default", why="first")
    service.parts.ledger.decide(version.name, version.version, Decision.APPROVE, who="ada", why="measured")


def accept(service: Service, run: str, law: str, *, days: float = 30.0, parameters: tuple[str, ...] = ()) -> None:
    until = datetime.now(UTC) + timedelta(days=days)
    review = {"law": law, "reason": "known since May", "expires_at": until.isoformat(), "parameters": parameters}
    answer = service.client.post(f"/api/v1/runs/{run}/reviews", json=review)
    assert answer.status_code == 201, answer.text


@pytest.fixture
def posted(service: Service, files: Files) -> Posted:
    approve(service, files.golden)
    return Posted(healthy=post(service, files.healthy), doubled=post(service, files.doubled))


def test_agreement_is_0_and_reads_as_diff_does(online: Command, service: Service, posted: Posted) -> None:
    ran = online("wait", posted.healthy)

    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("✓ agree: all 5 parameters")
    assert "channel approved points to v1" in ran.out
    assert f"{service.url}/runs/{posted.healthy}" in ran.out


def test_divergence_is_1_and_names_the_law(online: Command, posted: Posted) -> None:
    ran = online("wait", f"run:{posted.doubled}", "--pass-if-approved")

    assert ran.code == 1
    assert ran.out.startswith("✗ diverge: 2 of 2 expert parameters")
    assert "w[r,m] = ep" in ran.out
    assert "accepted" not in ran.out


def test_of_several_the_gravest_decides(online: Command, posted: Posted) -> None:
    ran = online("wait", posted.healthy, posted.doubled, posted.healthy, "--json")

    document = json.loads(ran.out)
    assert ran.code == document["exit"] == 1
    assert [run["exit"] for run in document["runs"]] == [0, 1]
    assert document["runs"][1]["assay"]["findings"][0]["law"]["formula"] == "w[r,m] = ep"


def test_an_accepted_divergence_passes_where_that_is_asked_for(
    online: Command, service: Service, posted: Posted
) -> None:
    assert online("wait", posted.doubled).code == 1
    accept(service, posted.doubled, "w[r,m] = ep")

    without = online("wait", posted.doubled)
    passing = online("wait", posted.doubled, "--pass-if-approved")

    assert (without.code, passing.code) == (1, 0)
    assert "--pass-if-approved lets the run pass" in without.err
    assert passing.out.startswith("✗ diverge")
    assert "known since May" in passing.out
    assert f"{datetime.now(UTC) + timedelta(days=30):%Y-%m-%d}" in passing.out
    assert "passes" in passing.out
    document = json.loads(online("wait", posted.doubled, "--pass-if-approved", "--json").out)
    assert (document["exit"], document["runs"][0]["exit"]) == (0, 0)
    assert document["runs"][0]["assay"]["exit"] == 1
    assert document["runs"][0]["assay"]["accepted"]["every_finding"] is True


def test_what_is_accepted_in_part_or_no_longer_does_not_pass(online: Command, service: Service, posted: Posted) -> None:
    assert online("wait", posted.doubled).code == 1
    accept(service, posted.doubled, "w[r,m] = ep", parameters=("expert.0.weight",))

    partly = online("wait", posted.doubled, "--pass-if-approved")
    assert partly.code == 1
    assert "not every divergence is accepted" in partly.err

    accept(service, posted.doubled, "w[r,m] = ep")
    (review, _) = service.client.get(f"/api/v1/runs/{posted.doubled}/reviews").json()
    assert online("wait", posted.doubled, "--pass-if-approved").code == 0
    service.client.delete(f"/api/v1/runs/{posted.doubled}/reviews/{review['number']}").raise_for_status()
    assert online("wait", posted.doubled, "--pass-if-approved").code == 1


def test_post_and_wait_at_once(online: Command, service: Service, files: Files) -> None:
    approve(service, files.golden)

    healthy = online("post", files.healthy, "--wait")
    both = online("post", files.healthy, files.doubled, files.golden, "--wait", "--json")

    assert healthy.code == 0
    assert healthy.out.startswith("run:")
    assert "✓ agree" in healthy.out
    document = json.loads(both.out)
    assert both.code == document["exit"] == 1
    assert len(document["files"]) == 3
    assert [run["exit"] for run in document["runs"]] == [0, 1]


def test_another_version_can_be_asked_for(online: Command, posted: Posted) -> None:
    assert online("wait", posted.doubled, "--against", "v1").code == 1
    assert online("wait", posted.doubled, "--against", "nightly").code == 3
    assert online("wait", posted.doubled, "--against", "v9").code == 2
    assert online("wait", posted.doubled, "--against", "../x").code == 2


def test_no_golden_is_3_and_never_a_pass(online: Command, service: Service, files: Files) -> None:
    ran = online("post", files.healthy, "--wait", "--pass-if-approved")

    assert ran.code == 3
    assert "golden" in ran.err


def test_missing_parameters_are_4(
    online: Command, service: Service, posted: Posted, tmp_path: Path, make_record: Callable[..., Record]
) -> None:
    record = make_record(layout=LAYOUT)
    kept = [row for row, parameter in enumerate(record.header.parameters) if parameter.name != "dense.0.weight"]
    capture = record.captures["reduced.1"]
    rows = {name: getattr(capture, name)[kept] for name in ("sketch", "norm2", "absmax", "nonfinite", "present")}
    header = replace(record.header, parameters=tuple(record.header.parameters[row] for row in kept))
    file = tmp_path / "missing.safetensors"
    Record(header=header, captures={"reduced.1": replace(capture, **rows)}).write(file)
    ran = online("post", file, "--wait")

    assert ran.code == 4
    assert "dense.0.weight" in ran.out


def test_more_units_than_the_golden_has_are_5(
    online: Command, service: Service, posted: Posted, tmp_path: Path, make_toy: Callable[..., Toy], make_record: Any
) -> None:
    file = tmp_path / "larger.safetensors"
    make_record(make_toy(units=24), layout=Layout(dp=4, ep=2, accum=6)).write(file)
    ran = online("post", file, "--wait", "--against", "v1")

    assert ran.code == 5
    assert "incomparable" in ran.out


def test_too_little_power_is_6(
    online: Command, service: Service, files: Files, tmp_path: Path, make_golden: Callable[..., Golden]
) -> None:
    golden = make_golden()
    noise = {
        family: replace(floor, q50=floor.q50 * 1e6, q999=floor.q999 * 1e6, scale=None)
        for family, floor in golden.header.noise.items()
    }
    weak = tmp_path / "weak" / "golden.safetensors"
    weak.parent.mkdir()
    replace(golden, header=replace(golden.header, noise=noise)).write(weak)
    approve(service, weak)
    ran = online("post", files.healthy, "--wait")

    assert ran.code == 6
    assert "inconclusive" in ran.out


def test_a_run_of_nobody_or_of_another_project_is_2(
    online: Command, service: Service, posted: Posted, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert online("wait", "0123456789abcdef").code == 2
    other = mint(service, "post", project="other")["Authorization"].removeprefix("Bearer ")
    monkeypatch.setenv("GRADASSAY_TOKEN", other)
    ran = online("wait", posted.healthy)
    assert ran.code == 2
    assert "not known" in ran.err


def test_without_a_token_it_is_10(online: Command, posted: Posted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GRADASSAY_TOKEN")
    ran = online("wait", posted.healthy)
    assert (ran.code, ran.out) == (10, "")
    assert "GRADASSAY_TOKEN" in ran.err


def test_a_divergence_is_graver_than_a_failure(online: Command, posted: Posted) -> None:
    ran = online("wait", "0123456789abcdef", posted.doubled, posted.healthy)

    assert ran.code == 1
    assert "0123456789abcdef" in ran.err
    assert online("wait", "0123456789abcdef", posted.healthy).code == 2


def test_a_verdict_that_does_not_come_is_11(inside: Command) -> None:
    pending = Answer.of({"id": "a", "run": "b", "detail": "being computed"}, status=202)
    with answering(pending) as server:
        ran = inside("wait", "run:b", "--timeout", "0.2", "--url", server.url)

    assert (ran.code, ran.out) == (11, "")
    assert "no verdict within 0.2 s" in ran.err
    assert "gradassay wait run:b" in ran.err
    assert all(asked.path.startswith("/api/v1/runs/b/assay?against=approved&wait=") for asked in server.asked)


def test_a_service_that_is_not_there_is_11(inside: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADASSAY_RETRY_S", "0.3")
    assert inside("wait", "b", "--url", f"http://127.0.0.1:{free_port()}").code == 11


def test_what_is_no_service_is_12(inside: Command) -> None:
    with answering(Answer(body=b"<html>")) as server:
        ran = inside("wait", "b", "--url", server.url)
    assert ran.code == 12
    assert "instead of JSON" in ran.err
