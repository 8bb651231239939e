"""The gradient of any unit, computed once more on this rank: for faults that a rank's own gradient cannot express."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from gradassay.goldens.header import Parameter
from gradassay.harness.faults.before import batch_before
from gradassay.harness.faults.site import Site
from gradassay.harness.interference import Interference

if TYPE_CHECKING:
    import torch
    from torch import Tensor

Changes = Mapping[str, "Tensor"]


class Shadow:
    """An unsharded model of the site's problem beside the one that trains, never communicating."""

    def __init__(self, site: Site, device: torch.device) -> None:
        import torch

        self._site, self._device = site, device
        dtype = torch.float64 if site.dtype == "float64" else torch.float32
        self._model = site.problem.build(dtype, device=device)

    def local(
        self,
        parameters: tuple[Parameter, ...],
        micro: int,
        weight: Callable[[int], float],
        *,
        term: str = "",
        before: bool = False,
    ) -> dict[str, Tensor]:
        """What this rank's local gradient of each parameter would be, with units weighted by `weight(rank)`.

        term: of this term of the loss alone. before: of the step before this one.
        """
        found: dict[str, Tensor] = {}
        for rank in range(self._site.layout.dp):
            factor = weight(rank)
            own = [parameter for parameter in parameters if rank in self._site.sources(parameter.family)]
            if not own or not factor:
                continue
            factor *= float(self._site.coefficients[rank, micro]) * self._site.layout.dp
            gradients = self._gradients(self._site.layout.unit(rank, micro), term, before)
            for parameter in own:
                part = gradients[parameter.name] * factor
                found[parameter.name] = found[parameter.name] + part if parameter.name in found else part
        return found

    def _gradients(self, unit: int, term: str, before: bool) -> dict[str, Tensor]:
        from gradassay.harness.strategies.single import batch_gradients

        problem = self._site.problem
        batch = batch_before(problem, unit, self._device) if before else problem.batch(unit, self._device)
        by_term = batch_gradients(problem, self._model, batch)
        if term:
            return by_term[term]
        first, *others = by_term.values()
        return {name: sum((other[name] for other in others), gradient) for name, gradient in first.items()}


def corrected(site: Site, change: Callable[[Shadow, int], Changes], *, replacing: bool = False) -> Interference:
    """Changes to local gradients, computed in the forward pass of each micro step.

    change: (shadow, micro step) -> what to add to the local gradient by canonical name, or, where `replacing`, what to put
    in its place.
    """
    made: list[Shadow] = []
    pending: dict[str, Tensor] = {}

    def terms(losses: dict[str, Tensor], _rank: int, micro: int) -> dict[str, Tensor]:
        if not made:
            made.append(Shadow(site, next(iter(losses.values())).device))
        pending.clear()
        pending.update(change(made[0], micro))
        return losses

    def gradient(name: str, _rank: int, _micro: int, values: Tensor) -> Tensor | None:
        found = pending.get(name)
        if found is None:
            return None
        found = found.reshape(values.shape)
        return (found if replacing else values + found).to(values.dtype)

    return Interference(terms=terms, gradient=gradient)
