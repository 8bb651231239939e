"""What every shape is asked: its weights at a place of a setting, and its text with a scale."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from gradassay.goldens.assay.result import Pattern
from gradassay.goldens.assay.scale import sizes
from gradassay.goldens.layout import Layout


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Where weights are read: the layout and the tokens [dp, accum] of its units.

    resolved: whether units can be told apart; without their gradients only one factor over all of them can be seen.
    run: the layout of the run, where `layout` is that of groups of its ranks. values: the numbers behind the symbols of a
    scale.
    """

    layout: Layout
    tokens: NDArray[np.float64]
    resolved: bool = True
    run: Layout | None = None
    values: Mapping[str, float] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", sizes(self.run or self.layout, int(self.tokens.sum())))


@dataclass(frozen=True, slots=True)
class Place:
    """Which gradient: of a parameter in this pipeline stage, as this data-parallel rank owns it (None: all together)."""

    owner: int | None = None
    stage: int = 0


class Shape(Protocol):
    """One pattern without its scale."""

    @property
    def pattern(self) -> Pattern: ...

    @property
    def bits(self) -> float:
        """Length of the description."""
        ...

    def weights(self, setting: Setting, place: Place) -> NDArray[np.float64] | None:
        """[dp, accum] at this place, None where the shape means nothing there."""
        ...

    def text(self, scale: str) -> str:
        """The right-hand side of the law with this scale ("1" for none)."""
        ...


def times(scale: str, factor: str) -> str:
    """The product of a scale's text and a factor's."""
    if scale in ("1", "-1"):
        return factor if scale == "1" else f"-{factor}"
    if scale.startswith("1/"):
        return f"{factor}/{scale[2:]}"
    return f"{scale}*{factor}"
