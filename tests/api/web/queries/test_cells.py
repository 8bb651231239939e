"""The newest run of a cell, whose it is, and which verdict counts."""

from __future__ import annotations

import pytest

from gradassay.api.database.database import Database
from gradassay.api.web.queries.cells import Narrowing, choices, newest, settled


def test_newest_run_of_a_cell_stands_for_it(seeded):
    for name, verdict in (("a", "diverge"), ("b", "agree")):
        seeded.assay(seeded.run(name), verdict)
    seeded.run("c", strategy="fsdp2")
    found = {cell.strategy: cell for cell in newest(seeded.database, "default", Narrowing())}
    assert (found["ddp"].run, found["ddp"].verdict, found["ddp"].runs) == ("b", "agree", 2)
    assert found["ddp"].sentence == "b agrees"
    assert (found["fsdp2"].run, found["fsdp2"].verdict, found["fsdp2"].sentence) == ("c", None, "")


def test_verdict_is_the_one_against_what_is_approved(seeded):
    run = seeded.run("a")
    seeded.assay(run, "agree", version=2)
    seeded.assay(run, "diverge", version=1)
    assert newest(seeded.database, "default", Narrowing())[0].verdict == "diverge"
    seeded.approve(2)
    assert newest(seeded.database, "default", Narrowing())[0].verdict == "agree"


def test_other_projects_are_not_seen(seeded):
    seeded.run("a", project="theirs")
    seeded.run("b")
    assert [cell.run for cell in newest(seeded.database, "default", Narrowing())] == ["b"]
    assert [cell.run for cell in newest(seeded.database, "theirs", Narrowing())] == ["a"]
    assert len(newest(seeded.database, "*", Narrowing())) == 1
    assert choices(seeded.database, "nobody", Narrowing()).problems == ()


def test_one_problem_and_dtype_are_settled_on(seeded):
    seeded.run("a", problem="other")
    seeded.run("b", dtype="bfloat16")
    assert settled(seeded.database, "default", Narrowing()) == Narrowing(problem="toy", dtype="bfloat16")
    assert settled(seeded.database, "default", Narrowing(problem="other")) == Narrowing(
        problem="other", dtype="float32"
    )
    asked = Narrowing(problem="other", dtype="float64")
    assert settled(seeded.database, "default", asked) == asked
    assert settled(seeded.database, "nobody", Narrowing()) == Narrowing()


def test_choices_follow_what_was_chosen(seeded):
    seeded.run("a", framework="deepspeed", framework_version="0.15.4")
    seeded.run("b", framework="deepspeed", framework_version="0.15.3")
    seeded.run("c", problem="other", dtype="bfloat16")
    found = choices(seeded.database, "default", Narrowing(problem="toy", dtype="float32", framework="deepspeed"))
    assert found.problems == ("other", "toy")
    assert found.dtypes == ("float32",)
    assert found.frameworks == ("deepspeed",)
    assert found.versions == ("0.15.3", "0.15.4")
    assert choices(seeded.database, "default", Narrowing(problem="toy")).versions == ()


@pytest.mark.parametrize("field", ["problem", "dtype", "framework", "version"])
def test_narrowing_to_what_is_no_text_finds_nothing(database: Database, field: str):
    narrowing = Narrowing(**{field: "a\0b"})
    assert settled(database, "default", narrowing) == narrowing
    assert newest(database, "default", narrowing) == []
    assert choices(database, "default", narrowing).versions == ()
