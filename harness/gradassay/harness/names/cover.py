"""Every parameter of a model by exactly one rule of a map, and every rule used."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from gradassay.goldens.errors import Incomplete, UsageError
from gradassay.harness.names.canonical import Canonical, nearest
from gradassay.harness.names.map import NameMap
from gradassay.harness.names.pattern import Pattern
from gradassay.harness.names.rule import Part, Rule

Shape = tuple[int, ...]
_SHOWN = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What a map says about a name. rule: None for an ignored one. meanings: of the rule's placeholders."""

    rule: Rule | None
    meanings: Mapping[str, str]


def plain_shapes(names: NameMap, shapes: Mapping[str, Shape]) -> dict[str, Shape]:
    """Shapes by plain name. Raises UsageError where two parameters get one plain name and are not tied."""
    found: dict[str, tuple[str, Shape]] = {}
    for name, shape in shapes.items():
        plain = names.plain(name)
        other, known = found.setdefault(plain, (name, tuple(shape)))
        if other == name:
            continue
        tied = any(plain in group for group in names.tied)
        if not tied or known != tuple(shape):
            raise UsageError(
                f"{other!r} {list(known)} and {name!r} {list(shape)} are both {plain!r} to this map",
                hint="tied parameters have one shape" if tied else "say so under `tied`, or drop fewer prefixes",
                name=name,
            )
    return {plain: shape for plain, (_, shape) in found.items()}


class Claims:
    """The rules and ignored patterns of a map, to be asked by name."""

    def __init__(self, names: NameMap, canonical: Canonical) -> None:
        claims: list[tuple[Pattern, Rule | None]] = [(rule.source, rule) for rule in names.rules]
        claims += [(pattern, None) for pattern in names.ignore]
        self._literal = {pattern.text: (pattern, rule) for pattern, rule in claims if pattern.literal}
        self._open = [(pattern, rule) for pattern, rule in claims if not pattern.literal]
        self._canonical = canonical

    def of(self, name: str) -> Claim | None:
        """The one claim to a plain name, None where there is none. Raises UsageError where there are several."""
        found = [self._literal[name]] if name in self._literal else []
        found += [(pattern, rule) for pattern, rule in self._open if pattern.match(name) is not None]
        if len(found) > 1:
            texts = [f"{'ignore ' if rule is None else ''}{pattern.text!r}" for pattern, rule in found]
            raise UsageError(
                f"{name!r} is claimed by {len(found)} rules: {', '.join(texts)}",
                hint="make their patterns exclude each other",
                name=name,
            )
        if found:
            pattern, rule = found[0]
            return Claim(rule=rule, meanings=pattern.match(name) or {})
        if name in self._canonical.shapes:
            return Claim(rule=Rule(source=Pattern(name), parts=(Part(to=Pattern(name)),)), meanings={})
        return None


def check_covered(names: NameMap, uncovered: list[str], own: Mapping[str, Shape], canonical: Canonical) -> None:
    """Raises Incomplete for names without a rule, with the rule and the canonical name that are most like the first."""
    if not uncovered:
        return
    shown = ", ".join(f"{name!r} {list(own[name])}" for name in uncovered[:_SHOWN])
    more = f" and {len(uncovered) - _SHOWN} more" if len(uncovered) > _SHOWN else ""
    rule = nearest(uncovered[0], [rule.source.text for rule in names.rules])
    name = nearest(uncovered[0], canonical.shapes)
    close = [
        f"the rule {rule!r}" if rule else "",
        f"the canonical name {name!r} {list(canonical.shapes[name])}" if name else "",
    ]
    raise Incomplete(
        f"{len(uncovered)} parameters are covered by no rule: {shown}{more}",
        hint=f"nearest to {uncovered[0]!r}: {' and '.join(filter(None, close))}"
        if any(close)
        else "write a rule for them, or list them under `ignore` where the problem does not train them",
        names=uncovered,
    )


def check_used(names: NameMap, used: Collection[Rule], own: Mapping[str, Shape]) -> None:
    """Raises UsageError for a rule that never applies, with the name that it may have been meant for."""
    rule = next((rule for rule in names.rules if not rule.optional and rule not in used), None)
    if rule is None:
        return
    close = nearest(rule.source.text, own)
    raise UsageError(
        f"rule {rule.source.text!r} applies to none of the model's {len(own)} parameters",
        hint=f"nearest is {close!r}; " * bool(close) + "say `optional = true` if that is right",
        rule=rule.source.text,
    )
