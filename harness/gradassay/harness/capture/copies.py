"""Which parameters' copies are not the same, to the last bit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from gradassay.harness.capture.census import Census
from gradassay.harness.capture.exchange import Exchange
from gradassay.harness.capture.held import Held


def differing(census: Census, pieces: Sequence[Held], digests: Sequence[int], exchange: Exchange) -> list[int]:
    """Places of the parameters whose copies differ in any bit; collective where any parameter has several.

    digests: of the place and bytes of each of this rank's pieces.
    """
    if not any(census.copied(index) for index in range(len(census.claims))):
        return []
    own = [
        (piece.index, piece.replica, digest)
        for piece, digest in zip(pieces, digests, strict=True)
        if census.copied(piece.index) and not piece.nothing
    ]
    copies: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for table in exchange.tables(np.array(own, dtype=np.int64).reshape(-1, 3)):
        for index, replica, digest in table.tolist():
            copies[index][replica].append(digest)
    return sorted(index for index, found in copies.items() if len({tuple(sorted(one)) for one in found.values()}) > 1)
