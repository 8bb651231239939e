"""Reports of large layouts stay readable, and say what they leave out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gradassay.goldens.assay.result import Assay, OwnerWeights
from gradassay.goldens.layout import Layout
from gradassay.goldens.report import render


@pytest.fixture
def large(geometric: Assay) -> Assay:
    """256 ranks, each with weights of its own."""
    decayed, unreduced = geometric.findings
    row = (4.0,) * 8
    weights = tuple(tuple(1.0 + rank + micro for micro in range(8)) for rank in range(256))
    owners = tuple(
        OwnerWeights(rank=rank, weights=tuple(row if other == rank else (0.0,) * 8 for other in range(256)))
        for rank in range(256)
    )
    findings = (replace(decayed, weights=weights, segments=None), replace(unreduced, owners=owners))
    return replace(geometric, layout=Layout(dp=256, accum=8), findings=findings)


@pytest.mark.parametrize(("format", "limit"), [("text", 20_000), ("markdown", 60_000), ("html", 2_000_000)])
def test_size_is_bounded(large: Assay, format: str, limit: int) -> None:
    text = render(large, format)

    assert len(text) < limit
    assert "248 more ranks" in text
    assert format == "html" or "224 more rows" in text


def test_owners_alike_are_put_together(large: Assay) -> None:
    assert "r = 8–255" in render(large, "text")
