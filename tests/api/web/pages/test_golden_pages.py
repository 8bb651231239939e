"""Goldens: listing, looking, approving, rejecting, and being second."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from builders import make_golden, make_toy
from demonstration import restructured, rounded
from forms import submit
from gradassay.api.judging.refresh import ensure_drift
from gradassay.api.ledger.deciding import Decision
from gradassay.goldens.golden import Golden
from gradassay.goldens.header import Controls

NAME = "toy.float32"
HOME = f"/goldens/{NAME}"
FIRST, SECOND = f"{HOME}/v1", f"{HOME}/v2"


def proposed(dashboard, made: Golden, tmp_path: Path, *, project: str = "default", who: str = "ci") -> int:
    """The number of the version that the golden now is, its drift known."""
    path = tmp_path / "incoming.safetensors"
    made.write(path)
    parts = dashboard.service.parts
    version = parts.ledger.propose(path, who=who, project=project, why="refreshed")
    ensure_drift(parts.database, parts.store, version.name, version.version)
    return version.version


def golden(dashboard) -> Golden:
    made = make_golden(dashboard.toy)
    return replace(made, header=replace(made.header, environment={"torch": "2.10"}))


def test_lists_say_what_is_approved_and_what_waits(fresh, tmp_path: Path):
    page = fresh.reader.get("/goldens").text
    assert f'href="{FIRST}"' in page
    assert "Waiting for review" not in page
    assert proposed(fresh, rounded(golden(fresh), size=1e-8), tmp_path) == 2
    page = fresh.reader.get("/goldens").text
    assert "Waiting for review" in page
    assert "Rounding; suspected cause: torch unknown -&gt; 2.10.0, cuda unknown -&gt; 13.0" in page
    assert f'href="{SECOND}"' in page


def test_page_holds_noise_power_references_and_environment(fresh):
    page = fresh.reader.get(FIRST).text
    for words in ("Noise floor and power", "fsdp2", "dp4", "99.9 % quantile", "first"):
        assert words in page
    assert "put into its references" not in page
    assert "Approve v1" not in page


def test_page_says_what_became_of_faults_put_into_references(fresh, tmp_path: Path):
    made = golden(fresh)
    score = Controls(tried=50, kinds=28, layouts=("dp4.accum3",), unnamed=("linear:all in dp4.accum3",))
    proposed(fresh, replace(made, header=replace(made.header, controls=score)), tmp_path)
    page = fresh.reader.get(SECOND).text
    assert "100.0% detected, 98.0% named" in page
    assert "50 faults of 28 kinds in dp4.accum3" in page
    assert "linear:all in dp4.accum3: not named" in page


def test_approval_needs_a_reason_and_moves_the_channel(fresh, tmp_path: Path):
    proposed(fresh, rounded(golden(fresh), size=1e-8), tmp_path)
    assert "Replaces v1" in fresh.reviewer.get(SECOND).text
    refused = submit(fresh.reviewer, SECOND, SECOND, decision="approve", expected_version=1, reason="  ")
    assert refused.status_code == 400
    assert "must say why" in refused.text
    assert fresh.service.parts.ledger.channels(NAME) == {"approved": 1}
    done = submit(fresh.reviewer, SECOND, SECOND, decision="approve", expected_version=1, reason="only rounding")
    assert (done.status_code, done.url.path) == (200, SECOND)
    assert f"{NAME} v2 is approved." in done.text
    assert "only rounding" in done.text
    assert fresh.service.parts.ledger.channels(NAME) == {"approved": 2}
    assert "superseded" in fresh.reviewer.get(FIRST).text


@pytest.mark.parametrize(("mine", "theirs"), [("approve", "reject"), ("reject", "approve")])
def test_second_reviewer_is_told_who_was_first_and_keeps_the_reason(fresh, tmp_path: Path, mine: str, theirs: str):
    proposed(fresh, rounded(golden(fresh), size=1e-8), tmp_path)
    fresh.service.parts.ledger.decide(
        NAME, 2, Decision(theirs), who="grace", why="I have looked at it", expected_version=1
    )
    late = submit(fresh.reviewer, "/settings", SECOND, decision=mine, expected_version=1, reason="my <own> reason")
    assert late.status_code == 409
    for words in ("grace", "I have looked at it", "my &lt;own&gt; reason"):
        assert words in late.text
    assert fresh.service.parts.ledger.channels(NAME) == {"approved": 1 if theirs == "reject" else 2}


def test_rejected_version_says_why_and_can_be_taken_back(fresh, tmp_path: Path):
    proposed(fresh, restructured(golden(fresh)), tmp_path)
    submit(fresh.reviewer, SECOND, SECOND, decision="reject", expected_version=1, reason="the router is twice as large")
    page = fresh.reader.get(SECOND).text
    assert "Rejected by reviewer" in page
    entry = fresh.service.parts.ledger.entries("default", golden=NAME).items[0].number
    assert f'href="/ledger/{entry}#undo"' in page
    undone = submit(fresh.reviewer, f"/ledger/{entry}", f"/ledger/{entry}/undo", reason="it was right after all")
    assert f"Entry {entry} is undone." in undone.text
    assert "Approve v2" in fresh.reviewer.get(SECOND).text
    again = submit(fresh.reviewer, f"/ledger/{entry}", f"/ledger/{entry}/undo", reason="once more")
    assert again.status_code == 409
    assert "once more" in again.text


def test_structured_change_is_no_rounding(fresh, tmp_path: Path):
    made = golden(fresh)
    header = replace(made.header, objective="token-mean")
    proposed(fresh, replace(made, header=header), tmp_path)
    page = fresh.reader.get(SECOND).text
    assert "structured change" in page
    assert "objective unit-mean -&gt; token-mean" in page


def test_versions_of_one_cause_are_approved_together(fresh, tmp_path: Path):
    other = make_golden(make_toy(name="other", seed=5))
    proposed(fresh, other, tmp_path)
    parts = fresh.service.parts
    parts.ledger.decide("other.float32", 1, Decision.APPROVE, who="ada", why="first", expected_version=0)
    proposed(fresh, rounded(golden(fresh), size=1e-8), tmp_path)
    proposed(fresh, rounded(other, size=1e-8), tmp_path)
    assert "Approve together" in fresh.reviewer.get("/goldens").text
    assert "Approve together" not in fresh.reader.get("/goldens").text
    versions = [f"{NAME}@v2=1", "other.float32@v2=1"]
    for wrong in ({"versions": versions}, {"reason": "new image"}, {"reason": "new image", "versions": ["nonsense"]}):
        assert submit(fresh.reviewer, "/goldens", "/goldens/approve", **wrong).status_code == 400
    parts.ledger.decide("other.float32", 2, Decision.REJECT, who="grace", why="not now", expected_version=1)
    done = submit(fresh.reviewer, "/settings", "/goldens/approve", versions=versions, reason="new image")
    assert "1 of 2 approved" in done.text
    assert "grace" in done.text
    assert parts.ledger.channels(NAME) == {"approved": 2}
    assert parts.ledger.channels("other.float32") == {"approved": 1}
    entry = next(one for one in parts.ledger.entries("default", golden=NAME).items if one.action == "approved")
    assert (entry.why, entry.cause) == ("new image", parts.ledger.version(NAME, 2).drift["cause"])


def test_structured_change_is_never_approved_with_others(fresh, tmp_path: Path):
    made = golden(fresh)
    proposed(fresh, replace(made, header=replace(made.header, objective="token-mean")), tmp_path)
    for versions in ([f"{NAME}@v2=1"], [f"{NAME}@v2=1", f"{NAME}@v1=1"]):
        refused = submit(fresh.reviewer, SECOND, "/goldens/approve", versions=versions, reason="all fine")
        assert refused.status_code == 400
        assert "do not share one cause" in refused.text
    assert fresh.service.parts.ledger.channels(NAME) == {"approved": 1}


def test_reader_sees_no_forms_and_cannot_decide(fresh, tmp_path: Path):
    proposed(fresh, rounded(golden(fresh), size=1e-8), tmp_path)
    page = fresh.reader.get(SECOND).text
    assert "needs a token with the scope <code>review</code>" in page
    assert "Approve v2" not in page
    answer = submit(fresh.reader, "/settings", SECOND, decision="approve", expected_version=1, reason="let me")
    assert answer.status_code == 403


def test_form_without_its_csrf_token_does_nothing(fresh, tmp_path: Path):
    proposed(fresh, rounded(golden(fresh), size=1e-8), tmp_path)
    fields = {"decision": "approve", "expected_version": "1", "reason": "forged"}
    answer = fresh.reviewer.post(SECOND, data=fields, headers={"Origin": fresh.service.url})
    assert answer.status_code == 403
    assert fresh.service.parts.ledger.channels(NAME) == {"approved": 1}


def test_other_projects_golden_is_as_unknown_as_what_there_is_not(fresh, tmp_path: Path):
    proposed(fresh, make_golden(make_toy(name="secret", seed=4)), tmp_path, project="theirs")
    assert "secret" not in fresh.reviewer.get("/goldens").text
    for path in ("", "/v1", "/v7"):
        theirs, nobodys = (fresh.reviewer.get(f"/goldens/{name}.float32{path}") for name in ("secret", "nobody"))
        assert theirs.status_code == nobodys.status_code == 404
        assert theirs.text.count("secret") == nobodys.text.count("nobody")
        assert "theirs" not in theirs.text
    hidden = submit(fresh.reviewer, "/settings", "/goldens/secret.float32/v1", decision="approve", expected_version=0)
    assert hidden.status_code == 404
