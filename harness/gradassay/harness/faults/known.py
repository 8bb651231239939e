"""Every kind of fault that can be injected."""

from __future__ import annotations

from collections.abc import Mapping

from gradassay.harness.faults.again import OwnAgain, ReducedAgain
from gradassay.harness.faults.broken import Missing, NonFinite
from gradassay.harness.faults.clipping import Clipped
from gradassay.harness.faults.disagreement import RankDisagreement
from gradassay.harness.faults.fault import InjectableFault
from gradassay.harness.faults.micro import FirstOnly, Geometric, LastOnly, Linear, MicroSubset
from gradassay.harness.faults.noise import Precision, Unexplained
from gradassay.harness.faults.permuted import Permuted
from gradassay.harness.faults.ranks import RankSubset, TokenWeighting
from gradassay.harness.faults.stale import Stale
from gradassay.harness.faults.term import Term
from gradassay.harness.faults.uniform import Sign, Uniform, Zero
from gradassay.harness.faults.unreduced import PartlyUnreduced, Unreduced

KINDS: Mapping[str, type[InjectableFault]] = {
    kind.name: kind
    for kind in (
        Uniform,
        Sign,
        Zero,
        Geometric,
        Linear,
        LastOnly,
        FirstOnly,
        MicroSubset,
        RankSubset,
        TokenWeighting,
        Unreduced,
        PartlyUnreduced,
        OwnAgain,
        ReducedAgain,
        RankDisagreement,
        Term,
        Stale,
        Permuted,
        Missing,
        NonFinite,
        Precision,
        Unexplained,
        Clipped,
    )
}


def injectable() -> tuple[InjectableFault, ...]:
    """Every fault that can be injected, with its default settings."""
    return tuple(kind() for kind in KINDS.values())
