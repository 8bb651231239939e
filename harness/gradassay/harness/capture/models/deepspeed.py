"""A DeepSpeed engine, of any ZeRO stage."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch import nn

from gradassay.harness.capture.models.place import Place
from gradassay.harness.capture.models.plain import hooked, named
from gradassay.harness.capture.models.protocol import Own, See
from gradassay.harness.capture.moment.sign import Moment, Sign
from gradassay.harness.capture.piece import Piece
from gradassay.harness.strategies.deepspeed_engine import engine_moment, loss_scale
from gradassay.harness.strategies.deepspeed_gradients import held, values
from gradassay.harness.strategies.deepspeed_moe import is_expert


@dataclass(frozen=True, kw_only=True)
class Engine:
    """A `Model` whose gradients an engine accumulates, reduces and partitions."""

    engine: Any
    place: Place

    @property
    def kind(self) -> str:
        """`deepspeed`."""
        return "deepspeed"

    @property
    def module(self) -> nn.Module:
        """What the engine trains."""
        module: nn.Module = self.engine.module
        return module

    @property
    def reduced_by_script(self) -> bool:
        """False: the engine does."""
        return False

    @property
    def loss_scale(self) -> float:
        """The engine's, of fp16."""
        return loss_scale(self.engine)

    def begin(self) -> None:
        """Nothing has to be noted."""

    def parameters(self) -> list[Own]:
        """Trained parameters, in the shapes that they have when they are gathered."""
        return [
            Own(
                name=name,
                shape=tuple(getattr(parameter, "ds_shape", parameter.shape)),
                expert=is_expert(parameter),
                tensor=parameter,
            )
            for name, parameter in named(self.module)
        ]

    def gradients(self) -> list[Piece]:
        """This rank's pieces, divided by the loss scale."""
        return held(self.engine, self._named())

    def weights(self) -> list[Piece]:
        """This rank's pieces of the full-precision parameters."""
        return values(self.engine, self._named())

    def signs(self) -> list[Sign]:
        """What the engine says against this moment."""
        objection = engine_moment(self.engine)
        if objection is None:
            return []
        moment = Moment.OFF_BOUNDARY
        if objection.startswith("no gradients"):
            moment = Moment.ENGINE_UPDATED if "update number" in objection else Moment.ENGINE_CLEARED
        elif objection.startswith("the engine is under no_sync"):
            moment = Moment.ENGINE_NO_SYNC
        return [Sign(moment=moment, message=objection)]

    def watch(self, see: See) -> list[Any]:
        """Hooks on the parameters that autograd sees; a partitioned one is whole while its gradient is computed."""
        return [hooked(name, parameter, see) for name, parameter in self._named()]

    def _named(self) -> Iterator[tuple[str, nn.Parameter]]:
        return named(self.module)
