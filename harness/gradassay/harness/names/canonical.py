"""The problem's parameters, as rules ask for them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

from gradassay.goldens.header import Parameter
from gradassay.harness.names.pattern import Pattern

Key = tuple[tuple[str, str], ...]


class Canonical:
    """The problem's parameters by name, and how many there are of a numbered kind. ep: expert-parallel ranks."""

    def __init__(self, parameters: Iterable[Parameter], *, ep_rank: int = 0, ep: int = 1) -> None:
        self.shapes = {parameter.name: parameter.shape for parameter in parameters}
        self.ep_rank, self.ep = ep_rank, ep
        self._counts: dict[tuple[Pattern, str], dict[Key, int]] = {}

    def count(self, target: Pattern, of: str, meanings: Mapping[str, str]) -> int:
        """How many parameters `target` stands for where only its placeholder `of` is open."""
        known = self._counts.get((target, of))
        if known is None:
            known = self._counts[target, of] = {}
            for name in self.shapes:
                found = target.match(name)
                if found is not None:
                    key = _key(found, of)
                    known[key] = known.get(key, 0) + 1
        return known.get(_key(meanings, of), 0)


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that is most like `word`, None where none is."""
    return next(iter(difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)), None)


def _key(meanings: Mapping[str, str], without: str) -> Key:
    return tuple(sorted((name, text) for name, text in meanings.items() if name != without))
