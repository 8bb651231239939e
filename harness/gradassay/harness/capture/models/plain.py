"""A model whose parameters are whole, or DTensors of tensor parallelism, with gradients in `.grad`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

from gradassay.harness.capture.models.place import Place
from gradassay.harness.capture.models.protocol import Own, See
from gradassay.harness.capture.models.tensors import is_partial, piece_of
from gradassay.harness.capture.moment.reductions import Reductions
from gradassay.harness.capture.moment.sign import Moment, Sign
from gradassay.harness.capture.piece import Piece

_WRAPPERS = re.compile(r"(?:^|(?<=\.))(?:_orig_mod|_checkpoint_wrapped_module)\.")


def named(module: nn.Module) -> Iterator[tuple[str, nn.Parameter]]:
    """Trained parameters by name, without the parts that wrappers add."""
    plain = Names(module)
    for name, parameter in module.named_parameters():
        if parameter.requires_grad:
            yield plain.of(name), parameter


class Names:
    """Names in a model without the parts that wrappers within it add."""

    def __init__(self, module: nn.Module) -> None:
        wrapped = [name for name, part in module.named_modules() if isinstance(part, DistributedDataParallel)]
        self._prefixes = [f"{name}.module." if name else "module." for name in reversed(wrapped)]

    def of(self, name: str) -> str:
        """The name without them."""
        for prefix in self._prefixes:
            if name.startswith(prefix):
                name = f"{prefix.removesuffix('module.')}{name.removeprefix(prefix)}"
        return _WRAPPERS.sub("", name)


@dataclass(frozen=True, kw_only=True)
class Plain:
    """A `Model` with nothing around it that trains; whatever the script itself reduces is reduced before the capture."""

    module: nn.Module
    place: Place

    @property
    def kind(self) -> str:
        """`tensor-parallel` where a parameter is a DTensor."""
        sharded = any(isinstance(parameter, DTensor) for parameter in self.module.parameters())
        return "tensor-parallel" if sharded else "plain"

    @property
    def reduced_by_script(self) -> bool:
        """True."""
        return True

    @property
    def loss_scale(self) -> float:
        """1: a scaler is the script's own."""
        return 1.0

    def begin(self) -> None:
        """Nothing has to be noted."""

    def parameters(self) -> list[Own]:
        """Trained parameters; an expert by its own mark has `allreduce = False`."""
        return self._own

    def gradients(self) -> list[Piece]:
        """Of `.grad`."""
        return self._pieces(lambda parameter: parameter.grad)

    def weights(self) -> list[Piece]:
        """Of the parameters."""
        return self._pieces(lambda parameter: parameter)

    def signs(self) -> list[Sign]:
        """Partial sums along other than tensor-parallel ranks."""
        partial = total = 0
        for _, parameter in self._trained:
            total += 1
            if isinstance(parameter, DTensor):
                partial += is_partial(parameter.grad, beside=self.place.tensor_axes(parameter.device_mesh))
        return [Sign(moment=Moment.PARTIAL, found=partial, expected=total)] if partial else []

    def watch(self, see: See) -> list[Any]:
        """Hooks on the parameters themselves."""
        return [hooked(name, parameter, see) for name, parameter in self._trained]

    @cached_property
    def _own(self) -> list[Own]:
        return [
            Own(
                name=name,
                shape=tuple(parameter.shape),
                expert=not getattr(parameter, "allreduce", True),
                tensor=parameter,
            )
            for name, parameter in self._trained
        ]

    @cached_property
    def _trained(self) -> list[tuple[str, nn.Parameter]]:
        return list(named(self.module))

    def _pieces(self, values: Callable[[Tensor], Tensor | None]) -> list[Piece]:
        return [piece_of(name, parameter, values(parameter), self.place) for name, parameter in self._trained]


@dataclass(frozen=True, kw_only=True)
class Distributed(Plain):
    """A model that DistributedDataParallel (`wrapper`) reduces."""

    wrapper: DistributedDataParallel
    reductions: Reductions

    @property
    def kind(self) -> str:
        """`ddp`."""
        return "ddp"

    @property
    def reduced_by_script(self) -> bool:
        """False: DistributedDataParallel does."""
        return False

    def begin(self) -> None:
        """Notes what it has reduced so far."""
        self.reductions.note(self.wrapper)

    def signs(self) -> list[Sign]:
        """Also that nothing was reduced."""
        return [*super().signs(), *self.reductions.signs(self.wrapper)]


def hooked(name: str, tensor: Tensor, see: See) -> Any:
    """The handle of a hook that shows what a backward pass gives for `tensor`."""
    return tensor.register_hook(lambda gradient: see(name, gradient))
