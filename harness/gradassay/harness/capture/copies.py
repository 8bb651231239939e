"""Copies of parameters numbered from 0, whatever numbers ranks gave them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from gradassay.goldens.header import Parameter
from gradassay.harness.capture.exchange import Exchange
from gradassay.harness.capture.piece import Piece


def numbered(pieces: Sequence[Piece], parameters: tuple[Parameter, ...], exchange: Exchange) -> list[Piece]:
    """The pieces with the copies of every parameter numbered from 0, in the order of the numbers that all ranks gave them;
    collective.
    """
    places = {parameter.name: index for index, parameter in enumerate(parameters)}
    own = np.array(
        [[places.get(piece.name, -1), piece.replica] for piece in pieces if len(piece.runs)],
        dtype=np.int64,
    ).reshape(-1, 2)
    given: dict[int, set[int]] = defaultdict(set)
    for table in exchange.tables(own):
        for index, replica in table.tolist():
            given[index].add(replica)
    order = {index: sorted(replicas) for index, replicas in given.items()}
    found = []
    for piece in pieces:
        known = order.get(places.get(piece.name, -1), [])
        number = known.index(piece.replica) if piece.replica in known else 0
        found.append(
            Piece(name=piece.name, values=piece.values, runs=piece.runs, replica=number, alone=len(known) == 1)
        )
    return found
