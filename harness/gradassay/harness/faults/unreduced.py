"""Reductions that were left out: every rank keeps what its own group of ranks computed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from gradassay.goldens.assay.result import Pattern
from gradassay.goldens.assay.shapes.protocol import times
from gradassay.goldens.header import Parameter
from gradassay.harness.faults.fault import SEVERAL_RANKS, Expected, InjectableFault
from gradassay.harness.faults.setting import Readers, below, formula, listed, numbers, one_of, spellings, value
from gradassay.harness.faults.site import Site
from gradassay.harness.interference import Interference

if TYPE_CHECKING:
    from torch import Tensor

    from gradassay.harness.capture.piece import Piece

_COUNTS = {"rank": "dp", "ep": "edp", "replica": "replicate"}
_OWN = {"rank": "[r = owner]", "ep": "[r in owner's ep group]", "replica": "[r in owner's replica]"}
_GROUP = one_of("", *_COUNTS)


def _group(site: Site, chosen: str, family: str) -> str:
    """Whose units an owner keeps: an expert's local gradient already holds its ep group's."""
    if not chosen:
        chosen = "replica" if site.layout.replicate > 1 else "rank"
    return "ep" if chosen == "rank" and site.spread(family) else chosen


def _members(site: Site, group: str, rank: int) -> range:
    """The data-parallel ranks of a rank's group."""
    layout = site.layout
    if group == "ep":
        return layout.ep_group(rank)
    size = 1 if group == "rank" else layout.dp // layout.replicate
    first = rank // size * size
    return range(first, first + size)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept(InjectableFault):
    """group: whose units an owner keeps (rank, ep or replica); left out, its own replica's where there are replicas, else
    its own. Local gradients are withheld from the strategy's reduction and put into the captured pieces by hand.
    """

    group: str = ""

    strategies = SEVERAL_RANKS

    def withheld(self, site: Site) -> frozenset[int]:
        """Micro steps that are not reduced."""
        return frozenset(range(site.layout.accum))

    def scale(self, site: Site, group: str) -> str:
        """What the units of the own group weigh."""
        return _COUNTS[group]

    def text(self, site: Site, group: str, scale: str) -> str:
        """The law's right-hand side."""
        return times(scale, _OWN[group])

    def check(self, site: Site) -> None:
        """Also refuses where groups are everybody, or ranks again."""
        InjectableFault.check(self, site)
        for group in self._families(site):
            members = len(_members(site, group, 0))
            if members == site.layout.dp or (group != "rank" and members == 1):
                raise self.useless(site)

    def expected(self, site: Site) -> tuple[Expected, ...]:
        """One law for each kind of group; a public report is of one."""
        families = self._families(site)
        return tuple(
            Expected(
                pattern=self.pattern,
                formulas=tuple(
                    self.text(site, group, scale) for scale in spellings(self.scale(site, group), site.layout)
                ),
                parameters=frozenset(parameter.name for parameter in members),
                reports=self.reports() if len(families) == 1 else (),
            )
            for group, members in families.items()
        )

    def interference(self, site: Site) -> Interference:
        """Keeps local gradients back, and adds the own group's to the pieces."""
        names, withheld = self.names(site), self.withheld(site)
        kept: dict[str, Tensor] = {}

        def gradient(name: str, _rank: int, micro: int, values: Tensor) -> Tensor | None:
            if name not in names or micro not in withheld:
                return None
            own = values.detach().double().reshape(-1)
            kept[name] = kept[name] + own if name in kept else own
            return values * 0

        def pieces(found: list[Piece]) -> list[Piece]:
            own: dict[str, Tensor] = {}
            for group, members in self._families(site).items():
                factor = value(self.scale(site, group), site.layout) / site.layout.dp
                own |= {name: total * factor for name, total in _added(site, group, members, kept).items()}
            return [_with(piece, own[piece.name]) if piece.name in own else piece for piece in found]

        return Interference(gradient=gradient, pieces=pieces)

    def _families(self, site: Site) -> dict[str, list[Parameter]]:
        """The covered parameters by the kind of group that an owner keeps."""
        groups: dict[str, list[Parameter]] = defaultdict(list)
        for parameter in self.covered(site):
            groups[_group(site, self.group, parameter.family)].append(parameter)
        return groups


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreduced(_Kept):
    """factor: what the own units weigh; left out, the number of groups, as where a mean over them is left out."""

    factor: str = ""

    name = "unreduced"
    pattern = Pattern.UNREDUCED
    description = "every rank keeps its own gradient (group=ep, group=replica: its group's), `factor` times"
    needs = "dp > 1, for experts edp > 1; group=ep needs 1 < ep < dp, group=replica needs replicate > 1"
    settings: ClassVar[Readers] = {"group": _GROUP, "factor": formula}

    def scale(self, site: Site, group: str) -> str:
        """The factor."""
        return self.factor or _COUNTS[group]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartlyUnreduced(_Kept):
    """reduced: the micro steps that are reduced as they should be."""

    reduced: tuple[int, ...] = (0,)

    name = "partly-unreduced"
    pattern = Pattern.PARTLY_UNREDUCED
    description = (
        "only the micro steps in `reduced` are reduced; of the others every rank keeps its own (group: its group's)"
    )
    needs = "accum > 1, dp > 1, for experts edp > 1"
    settings: ClassVar[Readers] = {"group": _GROUP, "reduced": numbers}

    def check(self, site: Site) -> None:
        """Also refuses micro steps that there are not, and all of them."""
        if site.layout.accum == 1:
            raise self.useless(site)
        _Kept.check(self, site)
        below(self.reduced, site.layout.accum, "accum")

    def withheld(self, site: Site) -> frozenset[int]:
        """The micro steps that are not in `reduced`."""
        return _Kept.withheld(self, site) - set(self.reduced)

    def text(self, site: Site, group: str, scale: str) -> str:
        """The law's right-hand side."""
        steps = listed(self.reduced).replace("+", ",")
        inside = f"m in {{{steps}}}" if len(self.reduced) > 1 else f"m = {steps}"
        return f"(1 if {inside} else {times(scale, _OWN[group])})"


def _added(site: Site, group: str, parameters: Sequence[Parameter], kept: dict[str, Tensor]) -> dict[str, Tensor]:
    """Kept gradients of `parameters` added up over the rank's group; collective over all ranks."""
    import torch
    import torch.distributed as dist

    if group == "rank":
        return {parameter.name: kept[parameter.name] for parameter in parameters if parameter.name in kept}
    sizes = [parameter.numel for parameter in parameters]
    device = next(iter(kept.values())).device
    flat = torch.zeros(sum(sizes), dtype=torch.float64, device=device)
    for parameter, part in zip(parameters, flat.split(sizes), strict=True):
        if parameter.name in kept:
            part += kept[parameter.name]
    for first in sorted({_members(site, group, rank)[0] for rank in range(site.layout.dp)}):
        ranks = _members(site, group, first)
        process_group = dist.new_group(list(ranks))
        if site.rank in ranks:
            dist.all_reduce(flat, group=process_group)
    return {parameter.name: part for parameter, part in zip(parameters, flat.split(sizes), strict=True)}


def _with(piece: Piece, own: Tensor) -> Piece:
    """The piece with what its rank kept added to it."""
    import torch

    if piece.values is None or not len(piece.runs):
        return piece
    part = torch.cat([own[first : first + length] for first, length in piece.runs.tolist()])
    return replace(piece, values=(piece.values.double() + part).to(piece.values.dtype))
