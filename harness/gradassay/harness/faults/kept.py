"""What owners keep of their own group's gradients, beside what is reduced."""

from __future__ import annotations

from abc import abstractmethod
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gradassay.goldens.header import Parameter
from gradassay.harness.faults.fault import SEVERAL_RANKS, Expected, InjectableFault
from gradassay.harness.faults.setting import one_of, spellings, value
from gradassay.harness.faults.site import Site
from gradassay.harness.interference import Interference

if TYPE_CHECKING:
    from torch import Tensor

    from gradassay.harness.capture.piece import Piece

COUNTS = {"rank": "dp", "ep": "edp", "replica": "replicate"}
OWN = {"rank": "[r = owner]", "ep": "[r in owner's ep group]", "replica": "[r in owner's replica]"}
GROUP = one_of("", *COUNTS)


def group_of(site: Site, chosen: str, family: str) -> str:
    """Whose units an owner keeps: an expert's local gradient already holds its ep group's."""
    if not chosen:
        chosen = "replica" if site.layout.replicate > 1 else "rank"
    return "ep" if chosen == "rank" and site.spread(family) else chosen


def members_of(site: Site, group: str, rank: int) -> range:
    """The data-parallel ranks of a rank's group."""
    layout = site.layout
    if group == "ep":
        return layout.ep_group(rank)
    size = 1 if group == "rank" else layout.dp // layout.replicate
    first = rank // size * size
    return range(first, first + size)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept(InjectableFault):
    """group: whose units an owner keeps (rank, ep or replica); left out, its own replica's where there are replicas, else
    its own. Local gradients are weighed before the strategy's reduction, and those of the group put into the captured pieces
    by hand.
    """

    group: str = ""

    strategies = SEVERAL_RANKS

    @abstractmethod
    def passed(self, site: Site, micro: int) -> float:
        """What units of this micro step weigh in the reduction."""

    @abstractmethod
    def own(self, site: Site, micro: int) -> float:
        """What the own group's units of this micro step weigh beside that, before `scale`."""

    @abstractmethod
    def scale(self, site: Site, group: str) -> str:
        """By what the own group's units are multiplied, as a formula."""

    @abstractmethod
    def text(self, site: Site, group: str, scale: str) -> str:
        """The law's right-hand side."""

    def check(self, site: Site) -> None:
        """Also refuses where groups are everybody, or ranks again."""
        InjectableFault.check(self, site)
        for group in self.families(site):
            members = len(members_of(site, group, 0))
            if members == site.layout.dp or (group != "rank" and members == 1):
                raise self.useless(site)

    def expected(self, site: Site) -> tuple[Expected, ...]:
        """One law for each kind of group; a public report is of one."""
        families = self.families(site)
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
        """Weighs local gradients, and adds the own group's to the pieces."""
        names = self.names(site)
        passed = [self.passed(site, micro) for micro in range(site.layout.accum)]
        weights = [self.own(site, micro) for micro in range(site.layout.accum)]
        kept: dict[str, Tensor] = {}

        def gradient(name: str, _rank: int, micro: int, values: Tensor) -> Tensor | None:
            if name not in names:
                return None
            if weights[micro]:
                own = values.detach().double().reshape(-1) * weights[micro]
                kept[name] = kept[name] + own if name in kept else own
            return values * passed[micro] if passed[micro] != 1 else None

        def pieces(found: list[Piece]) -> list[Piece]:
            own: dict[str, Tensor] = {}
            for group, members in self.families(site).items():
                factor = value(self.scale(site, group), site.layout) / site.layout.dp
                own |= {name: total * factor for name, total in _added(site, group, members, kept).items()}
            return [_with(piece, own[piece.name]) if piece.name in own else piece for piece in found]

        return Interference(gradient=gradient, pieces=pieces)

    def families(self, site: Site) -> dict[str, list[Parameter]]:
        """The covered parameters by the kind of group that an owner keeps."""
        groups: dict[str, list[Parameter]] = defaultdict(list)
        for parameter in self.covered(site):
            groups[group_of(site, self.group, parameter.family)].append(parameter)
        return groups


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
    for first in sorted({members_of(site, group, rank)[0] for rank in range(site.layout.dp)}):
        ranks = members_of(site, group, first)
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
