"""What a Recorder asks of a model in training, whatever wraps it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor, nn

from gradassay.harness.capture.models.place import Place
from gradassay.harness.capture.moment.sign import Sign
from gradassay.harness.capture.piece import Piece

See = Callable[[str, Tensor], None]
"""What is called with what one backward pass gives for a parameter, and the parameter's own name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """A trained parameter of a model: its own name, unsharded shape, whether it is an expert by a mark of its own, and the
    tensor that an optimizer holds.
    """

    name: str
    shape: tuple[int, ...]
    expert: bool
    tensor: Tensor


class Model(Protocol):
    """A model in training. Pieces carry the model's own names, without wrappers' prefixes, and as `replica` any number
    that only the ranks of one copy share.
    """

    @property
    def kind(self) -> str:
        """What it is, in a word."""

    @property
    def module(self) -> nn.Module:
        """The model itself, without what wraps it."""

    @property
    def place(self) -> Place:
        """This rank's place in the layout."""

    @property
    def reduced_by_script(self) -> bool:
        """Whether nothing but the script's own code reduces its gradients."""

    @property
    def loss_scale(self) -> float:
        """By how much losses, and what `watch` shows, are larger than `gradients` gives."""

    def begin(self) -> None:
        """Notes that a window of micro-batches begins here."""

    def parameters(self) -> Sequence[Own]:
        """Trained parameters that this rank's model has."""

    def gradients(self) -> list[Piece]:
        """The reduced gradient, this rank's part."""

    def weights(self) -> list[Piece]:
        """The trained parameters' own values, of their full-precision masters where there are such."""

    def signs(self) -> list[Sign]:
        """What says that this is not the moment to capture."""

    def watch(self, see: See) -> list[Any]:
        """Calls `see` with the gradient of every backward pass, whole or as a DTensor, before it is accumulated or reduced.
        The handles have `remove`; the list may grow.
        """
