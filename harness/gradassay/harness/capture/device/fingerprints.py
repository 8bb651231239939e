"""A checksum of tensors on a GPU, to tell copies apart there."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from gradassay.harness.capture.device.numbers import on
from gradassay.harness.capture.device.words import add_words

_WORD = 8
_BLOCK = 1024
_MOST_PROGRAMS = 2048
_INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def fingerprints(found: Sequence[Tensor]) -> list[int]:
    """63 bits of the bytes of 1-D tensors: other ones for tensors that differ, but by chance; one copy to the host a device.

    They are the same on every GPU, but others than those of `gradassay.harness.capture.fingerprint`.
    """
    sums: dict[torch.device, list[Tensor]] = {}
    for values in found:
        sums.setdefault(values.device, []).append(_sum(values.detach().contiguous()))
    numbers = {device: iter(torch.stack(of).tolist()) for device, of in sums.items()}
    return [(next(numbers[values.device]) >> 1) & (2**63 - 1) for values in found]


def _sum(values: Tensor) -> Tensor:
    size = values.element_size()
    programs = min(_MOST_PROGRAMS, max(1, -(-values.numel() * size // (_WORD * _BLOCK))))
    sums = torch.empty(programs, dtype=torch.int64, device=values.device)
    with on(values):
        add_words[(programs,)](
            values.view(_INTEGERS[size]), sums, values.numel(), per_word=_WORD // size, bits=8 * size, block=_BLOCK
        )
    return sums.sum()
