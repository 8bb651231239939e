"""A map from a framework's parameter names and layouts to a problem's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gradassay.goldens.errors import UsageError
from gradassay.harness.names.pattern import Pattern
from gradassay.harness.names.rule import Part, Rule

if TYPE_CHECKING:
    from gradassay.goldens.header import Parameter
    from gradassay.harness.capture.piece import Piece
    from gradassay.harness.names.binding import Binding

_FOLDER = Path(__file__).parent / "shipped"
SHIPPED = tuple(sorted(path.stem for path in _FOLDER.glob("*.toml")))
"""Names of the maps that come with the package."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NameMap:
    """Rules, and what is said about names before any rule applies.

    prefixes: dropped from the front of a name, as often as one of them stands there. ignore: parameters that the
    problem does not train. tied: groups of names of one tensor each; the first name stands for all.
    """

    rules: tuple[Rule, ...] = ()
    prefixes: tuple[str, ...] = ()
    ignore: tuple[Pattern, ...] = ()
    tied: tuple[tuple[str, ...], ...] = ()

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for pattern in (*(rule.source for rule in self.rules), *self.ignore):
            if pattern.text in seen:
                raise UsageError(f"two rules for {pattern.text!r}", hint="leave one of them out", rule=pattern.text)
            seen.add(pattern.text)
        names = [name for group in self.tied for name in group]
        doubled = next((name for name in names if names.count(name) > 1), None)
        if doubled is not None or any(len(group) < 2 for group in self.tied):
            raise UsageError(
                f"tied: {doubled!r} twice" if doubled else f"tied: {list(self.tied[-1])} alone",
                hint='write every group of names once, as in [["embedding.weight", "head.weight"]]',
            )
        if "" in self.prefixes:
            raise UsageError("prefixes: an empty prefix", hint='write it as in ["module."]')

    @classmethod
    def of(cls, names: NameMap | Mapping[str, str] | str | Path | None) -> NameMap:
        """The map that `names` is, renames as a dictionary of patterns, or the TOML file at a path.

        Renames may match nothing; None maps nothing.
        """
        if isinstance(names, NameMap):
            return names
        if isinstance(names, str | Path):
            return cls.read(names)
        rules = (
            Rule(source=Pattern(own), parts=(Part(to=Pattern(canonical)),), optional=True)
            for own, canonical in (names or {}).items()
        )
        return cls(rules=tuple(rules))

    @classmethod
    def read(cls, path: str | Path, *, values: Mapping[str, int] | None = None) -> NameMap:
        """The map in the TOML file at `path`; values: numbers for those that it names, before its own.

        Raises InvalidFile for anything that is not as docs/names.md says.
        """
        from gradassay.harness.names.file import read_map

        return read_map(Path(path), dict(values or {}))

    @classmethod
    def shipped(cls, name: str, *, values: Mapping[str, int] | None = None) -> NameMap:
        """The map of this name that comes with the package."""
        if name not in SHIPPED:
            raise UsageError(f"no map is called {name!r}", hint=f"known: {', '.join(SHIPPED)}")
        return cls.read(_FOLDER / f"{name}.toml", values=values)

    def plain(self, name: str) -> str:
        """The framework's name without prefixes; of tied names the first."""
        while prefix := next((prefix for prefix in self.prefixes if name.startswith(prefix)), ""):
            name = name.removeprefix(prefix)
        return next((group[0] for group in self.tied if name in group), name)

    def bind(
        self,
        shapes: Mapping[str, tuple[int, ...]],
        parameters: tuple[Parameter, ...],
        *,
        ep_rank: int = 0,
        ep: int = 1,
        partial: bool = False,
    ) -> Binding:
        """The map on one rank's model; see binding.bind."""
        from gradassay.harness.names.binding import bind

        return bind(self, shapes, parameters, ep_rank=ep_rank, ep=ep, partial=partial)

    def canonical(
        self,
        pieces: list[Piece],
        shapes: Mapping[str, tuple[int, ...]],
        parameters: tuple[Parameter, ...],
        *,
        ep_rank: int = 0,
        ep: int = 1,
        partial: bool = False,
    ) -> list[Piece]:
        """One rank's pieces by canonical names; see binding.py."""
        return self.bind(shapes, parameters, ep_rank=ep_rank, ep=ep, partial=partial).canonical(pieces)
