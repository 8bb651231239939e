"""Who holds what of a record in which ranks hold whole parameters."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gradassay.goldens.header import Parameter
from gradassay.goldens.record import Capture
from gradassay.harness.faults import Site
from gradassay.harness.faults.disagreement import number_of


def owners(site: Site, parameter: Parameter) -> range:
    """The data-parallel ranks that hold the parameter: an expert's are those of its place in every ep group."""
    layout = site.layout
    if not site.spread(parameter.family):
        return range(layout.dp)
    place = number_of(parameter.name) // (site.problem.experts // layout.ep)
    return range(place, layout.dp, layout.ep)


def copies(site: Site, parameters: tuple[Parameter, ...], capture: Capture) -> NDArray[np.float64]:
    """[dp, P, 1024]: what each rank holds of an honest capture, zero where it holds nothing."""
    rows = np.zeros((site.layout.dp, *capture.sketch.shape))
    for place, parameter in enumerate(parameters):
        rows[list(owners(site, parameter)), place] = capture.sketch[place]
    return rows
