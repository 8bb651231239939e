"""A map on one rank's model, checked: every parameter is covered by one rule and every canonical one has one source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

import torch

from gradassay.goldens.errors import Incomplete, UsageError
from gradassay.goldens.header import Parameter
from gradassay.harness.capture.piece import Piece
from gradassay.harness.names.apply import Source, part_of
from gradassay.harness.names.boxes import Boxes, boxes
from gradassay.harness.names.canonical import Canonical
from gradassay.harness.names.cover import Claims, Shape, check_covered, check_used, plain_shapes
from gradassay.harness.names.map import NameMap
from gradassay.harness.names.resolve import Resolver
from gradassay.harness.names.rule import Rule


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """Where every canonical parameter lies in this rank's model.

    shapes, sources: by name without prefixes, of tied names the first; shapes are the framework's own unsharded ones.
    """

    names: NameMap
    shapes: Mapping[str, Shape]
    sources: Mapping[str, tuple[Source, ...]]

    def targets(self, name: str) -> tuple[str, ...]:
        """Canonical parameters in the framework's parameter `name`; () for an ignored one."""
        return tuple(source.name for source in self.sources[self._known(name)])

    def canonical(self, pieces: list[Piece]) -> list[Piece]:
        """The pieces by canonical names; none for what this rank holds nothing of.

        pieces: by the framework's names, their runs in its own unsharded tensors. Values keep their element type and
        device. Raises Incomplete for one that does not fit its tensor, UsageError for tied ones that differ.
        """
        seen: dict[tuple[str, int], Piece] = {}
        found = []
        for piece in pieces:
            name = self._known(piece.name)
            _check_size(piece, self.shapes[name])
            first = seen.setdefault((name, piece.replica), piece)
            if first.name != piece.name:
                _check_same(first, piece)
                continue
            # Parts of one tensor mostly share a factoring: the runs are taken apart once for each.
            held: dict[Shape, Boxes] = {}
            for source in self.sources[name]:
                sizes = source.view.sizes
                if sizes not in held:
                    held[sizes] = boxes(piece.runs, sizes)
                part = part_of(piece, held[sizes], source)
                if part is not None:
                    found.append(part)
        return found

    def _known(self, name: str) -> str:
        plain = self.names.plain(name)
        if plain not in self.sources:
            raise UsageError(f"{name!r} is not among the shapes that its map was bound to", name=name)
        return plain


def bind(
    names: NameMap,
    shapes: Mapping[str, Shape],
    parameters: tuple[Parameter, ...],
    *,
    ep_rank: int = 0,
    ep: int = 1,
    partial: bool = False,
) -> Binding:
    """The map on a model. shapes: the framework's own unsharded shape of every trained parameter of this rank's model,
    by its names. parameters: the problem's. partial: other ranks have other parameters, so that rules need not all apply.

    A name that is canonical already needs no rule. Raises Incomplete for parameters that nothing covers, UsageError for
    those that several rules claim, for canonical ones with several sources, for rules that never apply, and for
    whatever does not work out in a rule (see resolve.py).
    """
    canonical = Canonical(parameters, ep_rank=ep_rank, ep=ep)
    own = plain_shapes(names, shapes)
    by_name = Claims(names, canonical)
    claims = {name: by_name.of(name) for name in own}
    check_covered(names, [name for name, claim in claims.items() if claim is None], own, canonical)
    sources: dict[str, tuple[Source, ...]] = dict.fromkeys(own, ())
    claimed: dict[str, str] = {}
    used: set[Rule] = set()
    for name, claim in claims.items():
        if claim is None or claim.rule is None:
            continue
        used.add(claim.rule)
        resolver = Resolver(rule=claim.rule, name=name, shape=own[name], meanings=claim.meanings, canonical=canonical)
        sources[name] = tuple(resolver.sources())
        for source in sources[name]:
            other = claimed.setdefault(source.name, name)
            if other != name:
                raise UsageError(
                    f"{source.name} has two sources, {other!r} {list(own[other])} and {name!r} {list(own[name])}",
                    hint="map one of them, and list the other under `ignore` or, if it is the same tensor, `tied`",
                    parameter=source.name,
                )
    if not partial:
        check_used(names, used, own)
    return Binding(names=names, shapes=own, sources=sources)


def _check_size(piece: Piece, shape: Shape) -> None:
    elements, total = int(piece.runs[:, 1].sum()), prod(shape)
    reach = int(piece.runs.sum(axis=1).max(initial=0))
    if piece.values is not None and piece.values.numel() != elements:
        problem = f"{piece.values.numel()} values for a piece of {elements} elements"
    elif piece.runs.min(initial=0) < 0 or reach > total:
        problem = f"a piece reaches to element {reach} of {total}"
    else:
        return
    raise Incomplete(f"{piece.name}: {problem}", hint=f"its own shape is {list(shape)}", parameter=piece.name)


def _check_same(first: Piece, again: Piece) -> None:
    """That a tied parameter captured twice is the same both times, to the last bit."""
    same = first.runs.tolist() == again.runs.tolist() and (first.values is None) == (again.values is None)
    if same and first.values is not None and again.values is not None:
        same = torch.allclose(first.values, again.values, rtol=0, atol=0, equal_nan=True)
    if not same:
        raise UsageError(
            f"{first.name!r} and {again.name!r} stand for one tensor, but their gradients differ",
            hint="if they are two parameters with a gradient each, the model is not tied; else `ignore` one of them",
            name=again.name,
        )
