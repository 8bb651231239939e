"""What a Recorder captures: the parameters of a problem, or those of a model that has none."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace

from gradassay.goldens.errors import Incomplete
from gradassay.goldens.header import Parameter
from gradassay.goldens.header import Problem as ProblemName
from gradassay.harness.capture.exchange import Exchange
from gradassay.harness.capture.models.place import Place
from gradassay.harness.capture.models.protocol import Own
from gradassay.harness.capture.piece import Piece
from gradassay.harness.names import NameMap
from gradassay.harness.names.binding import Binding
from gradassay.harness.names.view import View
from gradassay.harness.problems.families import guess_family
from gradassay.harness.problems.protocol import Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """problem: its name and digest. parameters: by canonical names, in canonical order. binding: where they lie in this
    rank's model. renamed: own name -> canonical one where that is all there is to it.
    """

    problem: ProblemName
    parameters: tuple[Parameter, ...]
    binding: Binding
    renamed: Mapping[str, str]

    def canonical(self, pieces: list[Piece]) -> list[Piece]:
        """This rank's pieces by canonical names."""
        alike = [_named(piece, self.renamed[piece.name]) for piece in pieces if piece.name in self.renamed]
        others = [piece for piece in pieces if piece.name not in self.renamed]
        return [*alike, *self.binding.canonical(others)] if others else alike


def of_problem(problem: Problem, names: NameMap, own: list[Own], place: Place) -> Subject:
    """The problem's parameters in a model; names: from the model's to the problem's."""
    ep = place.layout.ep
    binding = names.bind(_shapes(own), problem.parameters, ep_rank=place.ep_rank, ep=ep, partial=ep > 1)
    return Subject(
        problem=ProblemName(name=problem.name, digest=problem.digest),
        parameters=problem.parameters,
        binding=binding,
        renamed=_renamed(binding, own),
    )


def of_model(name: str, own: list[Own], place: Place, exchange: Exchange) -> Subject:
    """Every rank's parameters together, families guessed (see problems/families.py); collective.

    An expert that ranks of several ep ranks have under one name is as many parameters: `name@ep0`, `name@ep1`, ...
    Raises Incomplete where ranks have one parameter in different shapes.
    """
    rows = [(parameter.name, parameter.shape, parameter.expert, place.ep_rank) for parameter in own]
    shapes: dict[str, tuple[int, ...]] = {}
    marked: dict[str, bool] = {}
    holders: dict[str, set[int]] = defaultdict(set)
    for table in exchange.documents(rows):
        for parameter, shape, expert, ep_rank in table:
            known = shapes.setdefault(parameter, tuple(shape))
            if known != tuple(shape):
                raise Incomplete(
                    f"{parameter} has shape {list(known)} on one rank and {list(shape)} on another",
                    hint="tensor-parallel parameters have to be DTensors, so that their whole shape is known",
                    parameter=parameter,
                )
            marked[parameter] = expert
            holders[parameter].add(ep_rank)
    found, renames = [], {}
    for parameter, shape in shapes.items():
        family = guess_family(parameter, shape, expert=marked[parameter])
        spread = family == "expert" and len(holders[parameter]) > 1
        for ep_rank in sorted(holders[parameter]) if spread else [place.ep_rank]:
            known_as = f"{parameter}@ep{ep_rank}" if spread else parameter
            found.append(Parameter(name=known_as, shape=shape, family=family))
            if spread and ep_rank == place.ep_rank:
                renames[parameter] = known_as
    parameters = tuple(found)
    digest = hashlib.sha256("".join(f"{one.name}:{one.shape}\n" for one in parameters).encode()).hexdigest()
    binding = NameMap.of(renames).bind(_shapes(own), parameters, partial=True)
    return Subject(
        problem=ProblemName(name=name, digest=f"sha256:{digest}"),
        parameters=parameters,
        binding=binding,
        renamed=_renamed(binding, own),
    )


def _named(piece: Piece, name: str) -> Piece:
    return piece if piece.name == name else replace(piece, name=name)


def _renamed(binding: Binding, own: list[Own]) -> dict[str, str]:
    """Own names of parameters that are one canonical parameter each, just as they are."""
    tied = {name for group in binding.names.tied for name in group}
    found = {}
    for parameter in own:
        plain = binding.names.plain(parameter.name)
        sources = binding.sources[plain]
        if plain not in tied and len(sources) == 1 and sources[0].view == View.whole(binding.shapes[plain]):
            found[parameter.name] = sources[0].name
    return found


def _shapes(own: list[Own]) -> dict[str, tuple[int, ...]]:
    return {parameter.name: parameter.shape for parameter in own}
