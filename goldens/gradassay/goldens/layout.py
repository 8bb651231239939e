"""Parallel sizes of a run, and the numbering of its units."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields

from gradassay.goldens.errors import UsageError

_PART = re.compile(r"([a-z]+)([0-9]{1,9})")
_MOST_LISTED = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The parallel sizes of a run; `edp = dp/ep`, and a unit is one micro-batch on one data-parallel rank.

    dp counts all data-parallel ranks; replicate is how many of them hold copies of the same shard (HSDP), so
    shards are spread over dp/replicate ranks. Raises UsageError for sizes that do not divide.
    """

    dp: int = 1
    ep: int = 1
    tp: int = 1
    pp: int = 1
    cp: int = 1
    replicate: int = 1
    accum: int = 1

    def __post_init__(self) -> None:
        for field in fields(self):
            size = getattr(self, field.name)
            if not isinstance(size, int) or isinstance(size, bool) or size < 1:
                raise UsageError(f"layout: {field.name} = {size!r} must be a whole number of at least 1")
        for name in ("ep", "replicate"):
            size = getattr(self, name)
            if self.dp % size:
                divisors = [
                    str(divisor) for divisor in range(1, min(self.dp, _MOST_LISTED) + 1) if self.dp % divisor == 0
                ]
                raise UsageError(
                    f"layout: {name} = {size} does not divide dp = {self.dp}",
                    hint=f"choose {name} from {', '.join(divisors)}, or a dp that is a multiple of {size}",
                )

    @property
    def edp(self) -> int:
        """Ranks that hold the same experts: dp / ep."""
        return self.dp // self.ep

    @property
    def world(self) -> int:
        """Ranks in all: dp * tp * pp * cp."""
        return self.dp * self.tp * self.pp * self.cp

    @property
    def units(self) -> int:
        """Micro-batches that enter one gradient: dp * accum."""
        return self.dp * self.accum

    def unit(self, rank: int, micro: int) -> int:
        """Number of the unit of data-parallel rank `rank` at micro step `micro`: micro * dp + rank."""
        return micro * self.dp + rank

    def ep_group(self, rank: int) -> range:
        """Data-parallel ranks that hold the other experts of `rank`'s set: contiguous, as DeepSpeed and Megatron do."""
        first = rank // self.ep * self.ep
        return range(first, first + self.ep)

    def edp_group(self, rank: int) -> range:
        """Data-parallel ranks that hold the same experts as `rank`."""
        return range(rank % self.ep, self.dp, self.ep)

    def to_json(self) -> dict[str, int]:
        """The seven sizes by name, as in a record's header."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def parse(cls, text: str) -> Layout:
        """The layout written as `dp4.ep2.accum3`; sizes left out are 1. Raises UsageError naming the part."""
        sizes: dict[str, int] = {}
        names = [field.name for field in fields(cls)]
        for part in text.split("."):
            match = _PART.fullmatch(part)
            if match is None or match[1] not in names or match[1] in sizes:
                raise UsageError(
                    f"layout {text!r}: cannot read {part!r}",
                    hint=f"write sizes as in dp4.ep2.accum3, each of {', '.join(names)} at most once",
                )
            sizes[match[1]] = int(match[2])
        return cls(**sizes)

    def __str__(self) -> str:
        sizes = [(name, size) for name, size in self.to_json().items() if size > 1 or name == "dp"]
        return ".".join(f"{name}{size}" for name, size in sizes)
