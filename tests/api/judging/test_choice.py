"""Which golden a run is compared with, and the reasons that are given."""

from __future__ import annotations

import itertools

import pytest

from gradassay.api.judging.choice import Against, Choice, Known, Wanted, choose
from gradassay.goldens.errors import UsageError

OURS, OTHER = "sha256:ours", "sha256:other"
FLOAT = "float32/float32/float32"
WANTED = Wanted(golden="toy.float32", problem_digest=OURS, dtype_profile=FLOAT)


def known(
    version: int, state: str = "superseded", *, problem: str = OURS, profile: str = FLOAT, **approved: int
) -> Known:
    """A version; approved: by channel, the number of the ledger's entry."""
    return Known(
        version=version,
        digest=f"sha256:{version}",
        problem_digest=problem,
        dtype_profile=profile,
        state=state,
        approved_in=approved,
    )


def chosen(versions: list[Known], against: str = "approved", **channels: int) -> Choice:
    return choose(Against.parse(against), WANTED, versions, channels)


def test_channel_decides_and_says_what_was_passed_over():
    versions = [
        known(1, approved=1),
        known(2, "approved", approved=2),
        known(3, "rejected"),
        known(4, "proposed"),
    ]
    choice = chosen(versions, approved=2)
    assert (choice.version, choice.channel) == (2, "approved")
    assert choice.reasons == (
        "channel approved points to v2",
        f"v2 is of the run's problem and of dtype profile {FLOAT}",
    )
    assert choice.skipped == ("v4: proposed, not approved", "v3: rejected, not approved")


def test_version_that_is_asked_for_is_taken_and_what_speaks_against_it_is_said():
    versions = [known(1, approved=1), known(2, "rejected", problem=OTHER)]
    assert chosen(versions, "v1", approved=1).reasons == ("v1 was asked for",)
    choice = chosen(versions, "v2", approved=1)
    assert (choice.version, choice.channel) == (2, None)
    assert choice.reasons == ("v2 was asked for", f"v2: is of problem {OTHER}, the run of {OURS}")
    missing = chosen(versions, "v7", approved=1)
    assert (missing.version, missing.reasons) == (None, ("golden toy.float32 has no v7",))


def test_other_channels_are_other_choices():
    versions = [known(1, approved=1), known(2, nightly=2)]
    assert chosen(versions, "nightly", approved=1, nightly=2).version == 2
    assert chosen(versions, approved=1, nightly=2).version == 1
    nowhere = chosen(versions, "weekly", approved=1, nightly=2)
    assert nowhere.version is None
    assert nowhere.reasons == ("channel weekly of golden toy.float32 points to no version",)
    assert nowhere.skipped == ("v2: superseded, not weekly", "v1: superseded, not weekly")


@pytest.mark.parametrize(
    ("newer", "why"),
    [
        (known(3, "approved", problem=OTHER, approved=9), f"v3: is of problem {OTHER}, the run of {OURS}"),
        (
            known(3, "approved", profile="float32/float32/bfloat16", approved=9),
            f"v3: has dtype profile float32/float32/bfloat16, the run {FLOAT}",
        ),
    ],
)
def test_golden_of_another_problem_does_not_replace_that_of_the_runs_own(newer: Known, why: str):
    versions = [known(1, approved=4), known(2, approved=2), known(5, "proposed"), newer]
    choice = chosen(versions, approved=3)
    assert (choice.version, choice.channel) == (1, "approved")
    assert choice.reasons[1] == "v1 is what approved last approved for the run's problem and dtype profile"
    assert why in choice.skipped
    assert "v5: proposed, not approved" in choice.skipped
    alone = chosen([newer, known(1, "proposed")], approved=3)
    assert alone.version is None
    assert alone.reasons[1] == "nothing that was approved is of the run's problem and dtype profile"
    assert alone.skipped == (why, "v1: proposed, not approved")


def test_channel_that_was_emptied_has_no_golden_whatever_it_had_before():
    assert chosen([known(1, approved=1), known(2, "undone")]).version is None


def test_nothing_that_was_not_approved_is_ever_chosen_unasked():
    for states in itertools.product(("proposed", "rejected", "approved", "superseded"), repeat=3):
        for pointing in range(4):
            versions = [
                known(number, state, **({"approved": number} if state in ("approved", "superseded") else {}))
                for number, state in enumerate(states, start=1)
            ]
            choice = chosen(versions, approved=pointing)
            assert choice.version in (None, pointing) or "approved" in versions[choice.version - 1].approved_in
            assert (choice.version is None) == (pointing == 0)
            assert choice.reasons


@pytest.mark.parametrize("text", ["", "v0", "V3", "Approved", "a b", "-a", "v99999999999", "a" * 65, "a\n", "v1\n"])
def test_what_is_neither_version_nor_channel_is_refused(text: str):
    with pytest.raises(UsageError):
        Against.parse(text)
