"""Which of several files is A, and which are B."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from gradassay.cli.comparing import choose
from gradassay.goldens.errors import UsageError
from gradassay.goldens.reference import Referred


def _found(kind: Literal["golden", "record"], name: str) -> Referred:
    return Referred(kind=kind, ref=name, path=Path(name))


G, G2 = _found("golden", "g"), _found("golden", "g2")
R, S = _found("record", "r"), _found("record", "s")


@pytest.mark.parametrize(
    ("left", "right", "base", "candidates"),
    [
        ([G], [R], G, (R,)),
        ([R], [G], G, (R,)),
        ([R, S], [G], G, (R, S)),
        ([G, R], [S], G, (S,)),
        ([G2, R], [G], G, (R,)),
        ([R], [S], R, (S,)),
        ([R], [G, R, S], R, (R, S)),
    ],
)
def test_the_golden_comes_first(
    left: list[Referred], right: list[Referred], base: Referred, candidates: tuple[Referred, ...]
) -> None:
    assert choose(left, right) == (base, candidates)


@pytest.mark.parametrize(("left", "right"), [([G], [G2]), ([G, G2], [R]), ([R, S], [R]), ([R], [G, G2])])
def test_what_does_not_single_out_one_base_is_refused(left: list[Referred], right: list[Referred]) -> None:
    with pytest.raises(UsageError):
        choose(left, right)
