"""Owners that keep their own group's units, in all micro steps or in some."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gradassay.goldens.assay.result import Pattern
from gradassay.goldens.assay.shapes.protocol import Place, Setting, Shape, times
from gradassay.goldens.layout import Layout

OWN = {"rank": "[r = owner]", "ep": "[r in owner's ep group]", "replica": "[r in owner's replica]"}
GROUP_BITS = {"rank": 0.0, "ep": 0.8, "replica": 1.2}


def own_ranks(group: str, layout: Layout, owner: int) -> list[int]:
    """The data-parallel ranks of the owner's group: "rank" (itself), "ep" or "replica"."""
    if group == "rank":
        return [owner]
    if group == "ep":
        return list(layout.ep_group(owner))
    shard = layout.dp // layout.replicate
    return list(range(owner // shard * shard, owner // shard * shard + shard))


def group_count(group: str) -> str:
    """How many such groups there are, as a symbol: the factor where a mean over them was left out."""
    return {"rank": "dp", "ep": "edp", "replica": "replicate"}[group]


@dataclass(frozen=True, slots=True)
class Unreduced:
    """Every owner keeps what its own group computed, with the weights of another shape over micro steps."""

    group: str
    inner: Shape

    pattern = Pattern.UNREDUCED

    @property
    def bits(self) -> float:
        return 3.0 + GROUP_BITS[self.group] + self.inner.bits

    def weights(self, setting: Setting, place: Place) -> NDArray[np.float64] | None:
        mask = own_mask(self.group, setting.layout, place)
        inner = self.inner.weights(setting, place)
        return None if mask is None or inner is None else mask * inner

    def text(self, scale: str) -> str:
        return times(self.inner.text(scale), OWN[self.group])


@dataclass(frozen=True, slots=True)
class PartlyUnreduced:
    """Some micro steps are reduced as they should be; of the rest every owner keeps its own group's units.

    averaged: whether these were divided by the number of groups all the same.
    """

    group: str
    reduced: tuple[int, ...]
    averaged: bool

    pattern = Pattern.PARTLY_UNREDUCED

    @property
    def bits(self) -> float:
        return 3.0 + GROUP_BITS[self.group] + 0.7 * len(self.reduced) + 0.5 * self.averaged

    def weights(self, setting: Setting, place: Place) -> NDArray[np.float64] | None:
        mask = own_mask(self.group, setting.layout, place)
        if mask is None or max(self.reduced) >= setting.layout.accum:
            return None
        weights = mask * (1.0 if self.averaged else setting.values[group_count(self.group)])
        weights[:, list(self.reduced)] = 1.0
        return weights

    def text(self, scale: str) -> str:
        steps = ",".join(map(str, self.reduced))
        inside = f"m in {{{steps}}}" if len(self.reduced) > 1 else f"m = {steps}"
        rest = OWN[self.group] if self.averaged else times(group_count(self.group), OWN[self.group])
        return times(scale, f"(1 if {inside} else {rest})")


def own_mask(group: str, layout: Layout, place: Place) -> NDArray[np.float64] | None:
    """[dp, accum] of 1 on the owner's group; None without an owner, or where the group is everybody or a rank again."""
    if place.owner is None:
        return None
    members = own_ranks(group, layout, place.owner)
    if len(members) == layout.dp or (group != "rank" and len(members) == 1):
        return None
    mask = np.zeros((layout.dp, layout.accum))
    mask[members] = 1.0
    return mask
