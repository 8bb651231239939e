"""Whether DistributedDataParallel has reduced anything since it was last looked at."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from torch.nn.parallel import DistributedDataParallel

from gradassay.harness.capture.moment.sign import Moment, Sign


class Reductions:
    """Of every model that it is shown; one that it has not seen has reduced nothing before it was made."""

    def __init__(self) -> None:
        self._seen: WeakKeyDictionary[DistributedDataParallel, tuple[int, ...]] = WeakKeyDictionary()

    def note(self, model: DistributedDataParallel) -> None:
        """Begins a window here."""
        self._seen[model] = _clock(model)

    def signs(self, model: DistributedDataParallel) -> list[Sign]:
        """That the model is under `no_sync`, or that all of the window was.

        A flag that is set between a forward pass and its backward pass does not undo what was reduced before: that is a
        script's fault, and no wrong moment.
        """
        if not model.require_backward_grad_sync:
            return [Sign(moment=Moment.NO_SYNC)]
        now = _clock(model)
        unchanged = now == self._seen.get(model, (0,) * len(now))
        return [Sign(moment=Moment.NOT_REDUCED)] if unchanged and not model.require_forward_param_sync else []


def _clock(model: Any) -> tuple[int, ...]:
    """Nanoseconds of the last reduced backward pass, by parameter: another number after each, 0 before the first."""
    return tuple(model.reducer.get_backward_stats())
