"""Pieces as numbers: sketches, and a checksum that tells copies apart to the last bit."""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gradassay.goldens.kernel import threads
from gradassay.goldens.sketch import SEGMENTS, add_checked
from gradassay.harness.capture.device import choice
from gradassay.harness.capture.fingerprint import fingerprint
from gradassay.harness.capture.held import Held


def look_at(
    pieces: Sequence[Held],
    rows: Sequence[int | None],
    sketches: NDArray[np.float64],
    totals: NDArray[np.float64],
    *,
    told: Sequence[bool],
) -> list[int]:
    """Looks at every piece once: adds it to its row of sketches [n, 1024] and of totals [n, 3], None for no row, and gives
    of those that are `told` from copies a number of place and bytes, 0 of others: a checksum, since copies differ by
    accident and not on purpose.
    """
    numbers = [zlib.crc32(piece.runs.data) if one else 0 for piece, one in zip(pieces, told, strict=True)]
    there: list[int] = []
    # What is added to one row is added by one thread.
    here: dict[tuple[int | None, int], list[int]] = defaultdict(list)
    elements = 0
    for place, (piece, row) in enumerate(zip(pieces, rows, strict=True)):
        if isinstance(piece.values, Tensor):
            there.append(place)
        elif piece.values is not None:
            here[row, place if row is None else 0].append(place)
            elements += piece.values.shape[0]

    def look(places: Sequence[int]) -> None:
        for place in places:
            piece, row = pieces[place], rows[place]
            assert isinstance(piece.values, np.ndarray)
            if told[place]:
                numbers[place] ^= fingerprint(piece.values)
            if row is not None:
                add_checked(piece.values, piece.runs, piece.total, sketches[row], totals[row])

    asked = [place for place in there if told[place]]
    for place, number in zip(asked, _fingerprints([pieces[place] for place in asked]), strict=True):
        numbers[place] ^= number
    _add_there([(row, pieces[place]) for place in there if (row := rows[place]) is not None], sketches, totals)
    threads.each(look, [(places,) for places in here.values()], elements=elements)
    return numbers


def combine(totals: NDArray[np.float64], parts: NDArray[np.float64]) -> None:
    """Adds what several adders found, [n, ..., 16, 3] by segment, to totals [..., 3]."""
    totals[..., 0] += parts[..., 0].sum(axis=(0, -1))
    totals[..., 1] = np.maximum(totals[..., 1], parts[..., 1].max(axis=(0, -1)))
    totals[..., 2] += parts[..., 2].sum(axis=(0, -1))


def _fingerprints(pieces: Sequence[Held]) -> list[int]:
    values = [piece.values for piece in pieces if isinstance(piece.values, Tensor)]
    return choice.fingerprints(values) if values else []


def _add_there(pieces: Sequence[tuple[int, Held]], sketches: NDArray[np.float64], totals: NDArray[np.float64]) -> None:
    """Adds pieces that stay on GPUs to their rows."""
    by_device: dict[torch.device, list[tuple[int, Held]]] = defaultdict(list)
    for row, piece in pieces:
        assert isinstance(piece.values, Tensor)
        by_device[piece.values.device].append((row, piece))
    for device, placed in by_device.items():
        numbers = choice.numbers(len(placed), device)
        for place, (_, piece) in enumerate(placed):
            assert isinstance(piece.values, Tensor)
            numbers.add(place, piece.values, piece.runs, piece.total)
        for (row, _), sketch, parts in zip(placed, *numbers.read(), strict=True):
            sketches[row] += sketch
            combine(totals[row], parts.reshape(-1, SEGMENTS, 3))
