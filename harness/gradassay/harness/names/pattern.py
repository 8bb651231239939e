"""Names with placeholders, as in `layers.{layer}.norm.{weight|bias}`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from gradassay.goldens.errors import UsageError

_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_NUMBER = "0|[1-9][0-9]*"


@dataclass(frozen=True, slots=True)
class Pattern:
    """A name, literal but for placeholders: `{layer}` stands for a whole number, `{weight|bias}` for one of the words.

    A placeholder that stands in a pattern twice stands for the same text both times. Raises UsageError for braces that
    do not pair up and for placeholders of another kind.
    """

    text: str

    def __post_init__(self) -> None:
        wrong = next((found for found in self.placeholders if not _known(found)), None)
        if not self.text or wrong is not None or re.search(r"[{}]", _PLACEHOLDER.sub("", self.text)):
            raise UsageError(
                f"{self.text!r} is no pattern" + ("" if wrong is None else f": {{{wrong}}}"),
                hint="write a placeholder as {layer} (a whole number) or {weight|bias} (one of the words)",
            )

    def __str__(self) -> str:
        return self.text

    @property
    def literal(self) -> bool:
        """Whether it has no placeholder."""
        return "{" not in self.text

    @property
    def placeholders(self) -> tuple[str, ...]:
        """What stands between the braces, each once, in order."""
        return tuple(dict.fromkeys(_PLACEHOLDER.findall(self.text)))

    def match(self, name: str) -> dict[str, str] | None:
        """What the placeholders stand for where the whole of `name` is of this pattern, else None."""
        if self.literal:
            return {} if name == self.text else None
        found = _compiled(self.text).fullmatch(name)
        return None if found is None else dict(zip(self.placeholders, found.groups(), strict=True))

    def fill(self, meanings: Mapping[str, str]) -> str:
        """The name that this pattern is with those meanings of its placeholders."""
        return _PLACEHOLDER.sub(lambda found: meanings[found[1]], self.text)


def _known(placeholder: str) -> bool:
    words = placeholder.split("|")
    return words[0].isidentifier() if len(words) == 1 else all(re.fullmatch(r"[\w.]+", word) for word in words)


@lru_cache(maxsize=4096)
def _compiled(text: str) -> re.Pattern[str]:
    groups: dict[str, int] = {}
    pieces = []
    for place, piece in enumerate(_PLACEHOLDER.split(text)):
        if place % 2 == 0:
            pieces.append(re.escape(piece))
        elif piece in groups:
            pieces.append(f"(?:\\{groups[piece]})")
        else:
            groups[piece] = len(groups) + 1
            choices = "|".join(map(re.escape, piece.split("|"))) if "|" in piece else _NUMBER
            pieces.append(f"({choices})")
    return re.compile("".join(pieces))
