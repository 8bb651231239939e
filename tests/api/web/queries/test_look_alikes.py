"""Runs that look like public faults."""

from __future__ import annotations

from gradassay.api.web.queries.look_alikes import counts, look_alikes


def test_runs_are_counted_once_and_only_in_their_project(seeded):
    seeded.assay(seeded.run("a"), "diverge", known_faults=("deepspeed-6545", "torchtitan-1551"))
    seeded.assay("a", "diverge", version=2, known_faults=("deepspeed-6545",))
    seeded.assay(seeded.run("b"), "diverge", known_faults=("deepspeed-6545",))
    seeded.assay(seeded.run("c"), "diverge")
    seeded.assay(seeded.run("d", project="theirs"), "diverge", known_faults=("other-1",), project="theirs")
    assert counts(seeded.database, "default") == {"deepspeed-6545": 2, "torchtitan-1551": 1}
    assert counts(seeded.database, "theirs") == {"other-1": 1}
    assert len(counts(seeded.database, "*")) == 3


def test_newest_look_alikes_come_first(seeded):
    for name in "ab":
        seeded.assay(seeded.run(name), "diverge", known_faults=("deepspeed-6545",))
    found = look_alikes(seeded.database, "default", "deepspeed-6545")
    assert [one.run for one in found] == ["b", "a"]
    assert (found[0].formula, found[0].framework) == ("w[r,m] = ep", "torch 2.9")
    assert look_alikes(seeded.database, "default", "deepspeed-654") == []
    assert look_alikes(seeded.database, "theirs", "deepspeed-6545") == []
