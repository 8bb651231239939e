"""Cells judged by the goldens of a store, without any service."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gradassay.cli.integration.lines import line_of_assay, line_of_error, no_golden
from gradassay.cli.integration.recorded import Recorded
from gradassay.goldens.comparing import assay_all
from gradassay.goldens.errors import GradassayError, NoGolden
from gradassay.goldens.record import read_record
from gradassay.goldens.reference import GoldenReference, Referred
from gradassay.goldens.report.json import to_json

if TYPE_CHECKING:
    from pathlib import Path

    from gradassay.forges.outcome import CellLine
    from gradassay.goldens.store.keeper import Keeper


def judge_locally(
    store: Keeper, cells: Sequence[Recorded], *, against: str
) -> tuple[Sequence[CellLine], Sequence[str]]:
    """The lines of the cells, and notes. against: a channel, or a version as in v3."""
    return [_line(store, recorded, against) for recorded in cells], ()


def _line(store: Keeper, recorded: Recorded, against: str) -> CellLine:
    if recorded.path is None:
        assert recorded.error is not None
        return line_of_error(recorded, recorded.error)
    try:
        return line_of_assay(recorded, _assay(store, recorded, recorded.path, against))
    except GradassayError as error:
        return line_of_error(recorded, error)


def _assay(store: Keeper, recorded: Recorded, path: Path, against: str) -> dict[str, object]:
    header = read_record(path).header
    wanted = GoldenReference.parse(f"{header.problem.name}.{header.dtype}@{against}")
    try:
        golden = store.golden_path(wanted.name, wanted.version, channel=wanted.channel)
    except NoGolden as error:
        raise no_golden(error, recorded, wanted.name, f"--store {store}") from error
    base = Referred(kind="golden", ref=f"golden:{wanted.name}@{against}", path=golden)
    (assay,) = assay_all(base, [Referred(kind="record", ref=str(path), path=path)])
    return to_json(assay)
