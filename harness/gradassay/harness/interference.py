"""Where an injected fault can lay hands on a step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from gradassay.harness.capture.piece import Piece

GradientHook = Callable[[str, int, int, "Tensor"], "Tensor | None"]
TermsHook = Callable[[dict[str, "Tensor"], int, int], dict[str, "Tensor"]]
PiecesHook = Callable[[list["Piece"]], list["Piece"]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Interference:
    """Three places to change a step; None leaves it alone.

    gradient: (canonical name, data-parallel rank, micro step, local gradient before any reduction) -> another gradient,
    or None to keep it. terms: (loss by term, rank, micro step) -> loss by term. pieces: the rank's captured pieces
    before they are sketched -> other pieces.
    """

    gradient: GradientHook | None = None
    terms: TermsHook | None = None
    pieces: PiecesHook | None = None
