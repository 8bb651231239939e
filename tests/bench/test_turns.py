from __future__ import annotations

import pytest
from bench.turns import in_turns, ratio


def test_tasks_take_turns_and_the_first_round_does_not_count() -> None:
    done: list[str] = []
    seconds = in_turns(
        {"a": lambda: done.append("a"), "b": lambda: done.append("b")}, 2, before=lambda: done.append("-")
    )
    assert "".join(done) == "-a-b-b-a-a-b"
    assert {name: len(spent) for name, spent in seconds.items()} == {"a": 2, "b": 2}


def test_ratio_is_the_median_of_pairs() -> None:
    assert ratio([2.0, 30.0, 4.0], [1.0, 10.0, 1.0]) == pytest.approx(3.0)
