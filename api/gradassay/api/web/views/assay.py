"""One assay as pages show it: made from its JSON document, each part only when a template asks for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from gradassay.api.web.views.environment import Setting, environment_settings
from gradassay.api.web.views.parameters import Table, Wanted, parameter_table
from gradassay.api.web.views.scatter import Scatter, scatter
from gradassay.goldens.report.grid import Grid
from gradassay.goldens.report.heatmap import Heatmap, heatmap
from gradassay.goldens.report.json import from_json
from gradassay.goldens.report.view import FindingView, View, view


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """A finding in words, and its weights as heat-maps: one an owner where owners differ, none where none is known."""

    words: FindingView
    maps: tuple[Heatmap, ...]
    sixteenths: Heatmap | None


class AssayPage:
    """The parts of an assay's page. Asking for the table alone costs no more than the table."""

    def __init__(self, document: Mapping[str, Any], wanted: Wanted) -> None:
        self.document = document
        self._wanted = wanted

    @cached_property
    def shown(self) -> View:
        """The assay in words."""
        return view(from_json(self.document))

    @property
    def sentence(self) -> str:
        """The verdict in one sentence, without the word that stands beside it."""
        return self.shown.sentence.removeprefix(f"{self.shown.assay.verdict}: ")

    @cached_property
    def findings(self) -> tuple[Drawn, ...]:
        """What diverges, by law."""
        return tuple(
            Drawn(
                words=words,
                maps=tuple(heatmap(picture) for picture in words.pictures if _is_known(picture)),
                sixteenths=heatmap(words.sixteenths) if words.sixteenths else None,
            )
            for words in self.shown.findings
        )

    @cached_property
    def scatter(self) -> Scatter:
        """Ratios and residuals as charts."""
        return scatter(self.document)

    @cached_property
    def table(self) -> Table:
        """The page of the parameter table that is asked for."""
        return parameter_table(self.document, self._wanted)

    @cached_property
    def environment(self) -> tuple[Setting, ...]:
        """Both environments side by side, what changed first."""
        a, b = self.document["a"], self.document["b"]
        return environment_settings(a.get("environment", {}), b.get("environment", {}))


def _is_known(weights: Grid) -> bool:
    return any(value is not None for row in weights.values for value in row)
