"""Runs and their assays for the history of a parameter."""

from __future__ import annotations

from gradassay.api.web.queries.cells import Narrowing
from gradassay.api.web.queries.history import judged_runs

ROW = {"name": "a", "verdict": "agree", "ratio": 1.0, "residual": 1e-8, "tolerance": 1e-6}


def test_newest_runs_that_were_assayed_oldest_first(seeded):
    for name in "abcd":
        seeded.run(name, framework="deepspeed" if name == "b" else "torch")
        if name != "c":
            seeded.assay(name, "agree", parameters=(ROW,))
    found = judged_runs(seeded.database, "default", Narrowing(problem="toy", dtype="float32"))
    assert [one.run for one in found] == ["a", "b", "d"]
    assert found[0].document["parameters"] == [ROW]
    assert (found[0].against, found[0].commit) == ("v1", "c0ffeea")
    assert [one.run for one in judged_runs(seeded.database, "default", Narrowing(framework="deepspeed"))] == ["b"]
    assert [one.run for one in judged_runs(seeded.database, "default", Narrowing(), limit=1)] == ["d"]
    assert judged_runs(seeded.database, "theirs", Narrowing()) == []
