"""What the headers of records and goldens say; frozen dataclasses, validated by pydantic where a file is read."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any, Literal, NoReturn, TypeVar

from gradassay.goldens.container import invalid
from gradassay.goldens.errors import UsageError
from gradassay.goldens.layout import Layout

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Which training step: its name and the digest of its model, weights, data and objective."""

    name: str
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Framework:
    """What ran the step, and in which release."""

    name: str
    version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DtypeProfile:
    """Element types of parameters, gradients and the reduction, by torch's names without `torch.`."""

    parameter: str = "float32"
    gradient: str = "float32"
    reduce: str = "float32"

    def __str__(self) -> str:
        return self.parameter


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One parameter: canonical name, unsharded shape, family, pipeline stage and, where known, who owns which elements.

    shards: (data-parallel rank, first element, end) of the flattened parameter.
    """

    name: str
    shape: tuple[int, ...]
    family: str
    stage: int = 0
    shards: tuple[tuple[int, int, int], ...] | None = None

    @property
    def numel(self) -> int:
        """Number of elements."""
        return prod(self.shape)


@dataclass(frozen=True, slots=True, kw_only=True)
class StageStep:
    """Where (stage) and when (optimizer step, from 1) gradients were taken."""

    stage: str
    step: int

    def __str__(self) -> str:
        return f"{self.stage}.{self.step}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The commit that ran, and whether its tree had uncommitted changes."""

    commit: str = ""
    dirty: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """How parameters were updated: by SGD with this learning rate, after clipping the total norm to max_norm (0: never)."""

    learning_rate: float
    max_norm: float = 0.0

    def __str__(self) -> str:
        clipped = f", total norm clipped to {self.max_norm:g}" if self.max_norm else ""
        return f"SGD at learning rate {self.learning_rate:g}{clipped}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordHeader:
    """The header document of a record."""

    problem: Problem
    framework: Framework
    strategy: str
    layout: Layout
    dtype: DtypeProfile
    stages: tuple[StageStep, ...]
    parameters: tuple[Parameter, ...]
    convention: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, Any] = field(default_factory=dict)
    source: Source = Source()
    created: str = ""
    update: Update | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """One micro-batch on one data-parallel rank; tokens are those that count in its loss."""

    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseFloor:
    """Honest rounding of one family, relative to the float64 truth: median, 99.9 % quantile, number of samples.

    scale: the 99.9 % quantile of |ratio - 1|, the rounding along the truth itself, where it was measured.
    """

    q50: float
    q999: float
    samples: int
    scale: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A reference run behind a golden."""

    strategy: str
    layout: Layout
    record: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Controls:
    """What became of faults that were put into reference records when the golden was built.

    tried: how many, of so many kinds, in these layouts. undetected: those whose assay did not diverge. unnamed: those that
    it detected, but by another law than the one put in, or in other parameters.
    """

    tried: int
    kinds: int
    layouts: tuple[str, ...]
    undetected: tuple[str, ...] = ()
    unnamed: tuple[str, ...] = ()

    @property
    def detected(self) -> float:
        """The share that was detected."""
        return 1 - len(self.undetected) / self.tried if self.tried else 0.0

    @property
    def named(self) -> float:
        """The share that was named."""
        return self.detected - len(self.unnamed) / self.tried if self.tried else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondStep:
    """What a golden's second basis follows: an update with the gradient of the first `units` units.

    noise: by family, the honest rounding of gradients after it, which holds that of the update as well.
    """

    units: int
    update: Update
    noise: dict[str, NoiseFloor]


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenHeader:
    """The header document of a golden."""

    problem: Problem
    dtype: DtypeProfile
    parameters: tuple[Parameter, ...]
    objective: Literal["unit-mean", "token-mean"]
    units: tuple[Unit, ...]
    noise: dict[str, NoiseFloor]
    references: tuple[Reference, ...] = ()
    terms: tuple[str, ...] = ()
    environment: dict[str, Any] = field(default_factory=dict)
    created: str = ""
    second: SecondStep | None = None
    controls: Controls | None = None


def _adapter(kind: Any) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def parse_header(kind: type[T], document: Any, path: Path) -> T:
    """The document as a `kind`; raises InvalidFile that names the field, what was expected and what was found."""
    from pydantic import ValidationError

    try:
        header: T = _adapter(kind).validate_python(document)
    except ValidationError as error:
        _refuse(path, error.errors()[0])
    except UsageError as error:
        invalid(path, "layout", "sizes that divide", error.message, hint=error.hint)
    return header


def _refuse(path: Path, problem: Any) -> NoReturn:
    where = ".".join(str(part) for part in problem["loc"]) or "header"
    missing = problem["type"] == "missing"
    invalid(path, where, problem["msg"], "nothing" if missing else repr(problem["input"])[:120])


def dump_header(header: RecordHeader | GoldenHeader, kind: str, format_number: int) -> dict[str, Any]:
    """The JSON document of a header; what is unknown is left out."""
    document = _adapter(type(header)).dump_python(header, mode="json", exclude_none=True)
    return {"format": format_number, "kind": kind, **document}


def check_parameters(parameters: tuple[Parameter, ...], path: Path, *, ranks: int | None = None) -> None:
    """Raises InvalidFile for duplicate or empty names, negative extents, and shards outside the tensor or the ranks."""
    seen: set[str] = set()
    for parameter in parameters:
        where = f"parameters: {parameter.name!r}"
        if not parameter.name or not parameter.family:
            invalid(path, "parameters", "a name and a family each", repr(parameter.name))
        if parameter.name in seen:
            invalid(path, where, "each name once", "it twice")
        seen.add(parameter.name)
        if any(extent < 0 for extent in parameter.shape):
            invalid(path, f"{where}: shape", "extents of at least 0", list(parameter.shape))
        for rank, first, end in parameter.shards or ():
            if rank < 0 or (ranks is not None and rank >= ranks):
                invalid(path, f"{where}: shards", f"data-parallel ranks below {ranks}", rank)
            if not 0 <= first <= end <= parameter.numel:
                invalid(path, f"{where}: shards", f"elements of [0, {parameter.numel})", f"[{first}, {end})")
    if not parameters:
        invalid(path, "parameters", "at least one", "none")
