"""What differs between two environments: the first suspects of any difference in rounding."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

ABSENT = "—"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One entry of both environments, `—` where a side does not say."""

    name: str
    a: str
    b: str

    @property
    def changed(self) -> bool:
        """Whether both sides say something, and not the same."""
        return self.a != self.b and ABSENT not in (self.a, self.b)


def environment_settings(a: Mapping[str, Any], b: Mapping[str, Any]) -> tuple[Setting, ...]:
    """Every entry of either side, those that changed first, each group by name."""
    settings = [Setting(name=name, a=_text(a, name), b=_text(b, name)) for name in sorted(a.keys() | b.keys())]
    return tuple(sorted(settings, key=lambda setting: not setting.changed))


def _text(environment: Mapping[str, Any], name: str) -> str:
    value = environment.get(name)
    if value is None:
        return ABSENT
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {item}" for key, item in value.items()) or ABSENT
    if isinstance(value, list):
        return ", ".join(map(str, value)) or ABSENT
    return str(value)
