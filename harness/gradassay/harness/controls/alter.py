"""What a record would hold if its step had been broken: the fault's change, computed from the golden's units and added."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import singledispatch
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from gradassay.goldens.errors import UsageError
from gradassay.goldens.golden import Golden
from gradassay.goldens.header import Parameter
from gradassay.goldens.record import Capture, Record
from gradassay.goldens.sketch import BUCKETS
from gradassay.harness.controls.owners import copies, owners
from gradassay.harness.faults import InjectableFault, Site
from gradassay.harness.faults.broken import Missing, NonFinite
from gradassay.harness.faults.clipping import Clipped
from gradassay.harness.faults.disagreement import RankDisagreement
from gradassay.harness.faults.kept import Kept, members_of
from gradassay.harness.faults.noise import Unexplained
from gradassay.harness.faults.permuted import Permuted
from gradassay.harness.faults.setting import value
from gradassay.harness.faults.term import Term
from gradassay.harness.faults.weighted import WeightedFault

STAGE = "reduced.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Honest:
    """An honest capture, and what its step is made of. rows: place of every parameter by name."""

    capture: Capture
    site: Site
    golden: Golden
    rows: Mapping[str, int]

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """In the order of the rows."""
        return self.golden.header.parameters

    def places(self, fault: InjectableFault) -> list[int]:
        """Rows of the parameters that the fault is confined to."""
        return [self.rows[parameter.name] for parameter in fault.covered(self.site)]

    def weighed(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """[P, 1024]: what a step would have measured that weighs its units so [dp, accum].

        Its rounding is the honest one, as much larger as the units are: each was rounded before it was weighed.
        """
        squares = self.golden.bases[1].norm2[: self.site.layout.units] * self.site.coefficients.T.ravel()[:, None] ** 2
        grown = np.sqrt(
            np.divide(
                weights.T.ravel() ** 2 @ squares, total := squares.sum(axis=0), where=total > 0, out=np.ones(len(total))
            )
        )
        rounding = self.capture.sketch - self.sum(np.ones_like(weights))
        measured: NDArray[np.float64] = self.sum(weights) + rounding * grown[:, None]
        return measured

    def sum(self, weights: NDArray[np.float64], *, term: str = "") -> NDArray[np.float64]:
        """[P, 1024]: the units' true gradients (or one term's), weighed by `weights` [dp, accum]."""
        basis = self.golden.bases[1]
        units = basis.terms[term] if term else basis.sketch
        shares = (weights * self.site.coefficients).T.ravel()
        total: NDArray[np.float64] = np.tensordot(shares, units[: len(shares)], 1)
        return total


def altered(record: Record, fault: InjectableFault, site: Site, golden: Golden) -> Record:
    """The honest `record` as the fault would have left it, its own rounding with it.

    Raises UsageError for kinds of fault that arithmetic on sketches cannot show: lost precision, and a step before.
    """
    rows = {parameter.name: row for row, parameter in enumerate(golden.header.parameters)}
    honest = Honest(capture=record.captures[STAGE], site=site, golden=golden, rows=rows)
    return replace(record, captures={STAGE: _alter(fault, honest)})


@singledispatch
def _alter(fault: InjectableFault, honest: Honest) -> Capture:  # noqa: ARG001
    raise UsageError(f"{fault} cannot be computed from sketches", hint="inject it into a run: gradassay record --fault")


@_alter.register
def _(fault: WeightedFault, honest: Honest) -> Capture:
    weights, places = fault.weights(honest.site), honest.places(fault)
    sketch = honest.capture.sketch.copy()
    sketch[places] = honest.weighed(weights)[places]
    return _with(honest, sketch)


@_alter.register
def _(fault: Term, honest: Honest) -> Capture:
    places, layout = honest.places(fault), honest.site.layout
    sketch = honest.capture.sketch.copy()
    change = np.full((layout.dp, layout.accum), value(fault.scale, layout) - 1)
    sketch[places] += honest.sum(change, term=fault.term or honest.site.problem.terms[-1])[places]
    return _with(honest, sketch)


@_alter.register
def _(fault: Clipped, honest: Honest) -> Capture:
    factor = float(fault.max_norm) / sqrt(honest.capture.norm2.sum())
    return _with(honest, honest.capture.sketch * factor)


@_alter.register
def _(fault: Missing, honest: Honest) -> Capture:
    places = honest.places(fault)
    sketch, present = honest.capture.sketch.copy(), honest.capture.present.copy()
    sketch[places], present[places] = 0.0, 0
    return replace(_with(honest, sketch), present=present)


@_alter.register
def _(fault: NonFinite, honest: Honest) -> Capture:
    nonfinite = honest.capture.nonfinite.copy()
    nonfinite[honest.places(fault)] = 1
    return replace(honest.capture, nonfinite=nonfinite)


@_alter.register
def _(fault: Unexplained, honest: Honest) -> Capture:
    places = honest.places(fault)
    sketch = honest.capture.sketch.copy()
    noise = np.random.default_rng(0).standard_normal((len(places), BUCKETS))
    kept = np.array([min(honest.parameters[place].numel, BUCKETS) for place in places])
    noise[np.arange(BUCKETS)[None, :] >= kept[:, None]] = 0.0
    lengths = np.linalg.norm(sketch[places], axis=1) * float(fault.size)
    sketch[places] += noise * (lengths / np.linalg.norm(noise, axis=1))[:, None]
    return _with(honest, sketch)


@_alter.register
def _(fault: Permuted, honest: Honest) -> Capture:
    sketch = honest.capture.sketch.copy()
    for name, source in fault.sources(honest.site).items():
        sketch[honest.rows[name]] = honest.capture.sketch[honest.rows[source.name]]
    return _with(honest, sketch)


@_alter.register
def _(fault: Kept, honest: Honest) -> Capture:
    site, layout = honest.site, honest.site.layout
    steps = range(layout.accum)
    passed = np.array([fault.passed(site, micro) for micro in steps])
    own = np.array([fault.own(site, micro) for micro in steps])
    rows = copies(honest.site, honest.parameters, honest.capture)
    for group, parameters in fault.families(site).items():
        scale = value(fault.scale(site, group), layout)
        changes = {
            members[0]: honest.sum(
                np.tile(passed - 1, (layout.dp, 1))
                + np.isin(np.arange(layout.dp), members)[:, None] * (scale * own)[None, :]
            )
            for rank in range(layout.dp)
            if (members := members_of(site, group, rank))[0] == rank
        }
        for parameter in parameters:
            place = honest.rows[parameter.name]
            for rank in owners(site, parameter):
                rows[rank, place] += changes[members_of(site, group, rank)[0]][place]
    return _with_copies(honest, rows)


@_alter.register
def _(fault: RankDisagreement, honest: Honest) -> Capture:
    rows = copies(honest.site, honest.parameters, honest.capture)
    factor = value(fault.scale, honest.site.layout)
    for name in fault.shared(honest.site):
        for rank in fault.chosen(honest.site):
            rows[rank, honest.rows[name]] *= factor
    return _with_copies(honest, rows)


def _with_copies(honest: Honest, rows: NDArray[np.float64]) -> Capture:
    """The capture of ranks that hold these rows [dp, P, 1024], zero where a rank holds nothing."""
    first = [owners(honest.site, parameter)[0] for parameter in honest.parameters]
    sketch = rows[first, np.arange(len(first))]
    return replace(_with(honest, sketch), rank_sketch=rows)


def _with(honest: Honest, sketch: NDArray[np.float64]) -> Capture:
    """The capture with another sketch, and sums of squares and magnitudes that go with it."""
    old, new = (np.einsum("pk,pk->p", one, one) for one in (honest.capture.sketch, sketch))
    grown = np.divide(new, old, out=np.ones_like(old), where=old > 0)
    return replace(
        honest.capture,
        sketch=sketch,
        norm2=np.where(old > 0, honest.capture.norm2 * grown, new),
        absmax=np.where(old > 0, honest.capture.absmax * np.sqrt(grown), np.abs(sketch).max(axis=1)),
    )
