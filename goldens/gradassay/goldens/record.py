"""The record file: what one run captured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gradassay.goldens.atomic import write_atomically
from gradassay.goldens.container import FORMAT, Container, invalid, open_container, to_bytes
from gradassay.goldens.header import RecordHeader, check_parameters, dump_header, parse_header
from gradassay.goldens.sketch import BUCKETS


@dataclass(frozen=True, slots=True, kw_only=True)
class Capture:
    """What was captured at one stage and step, in the order of the header's P parameters.

    sketch: [P, 1024] float64. norm2: [P] float64, exact sum of squares. absmax: [P] float64. nonfinite: [P] int64,
    elements that are NaN or infinite. present: [P] uint8, 0 where the framework gave no gradient.
    rank_sketch: [R, P, 1024], each data-parallel rank's own copy of what it holds whole (zero rows elsewhere), or None.
    full: the gradients themselves by parameter name, where they were asked for.
    units: [accum * G, P, 1024], at stage `local` what each rank's backward pass of each micro-batch gave before any
    accumulation and reduction (zero rows where a rank holds no such parameter): G is dp, or where that makes many a divisor
    of dp, and row micro * G + g is then the sum over the dp/G neighbouring ranks of group g. There `sketch` is what a mean
    over data-parallel ranks makes of them, and norm2 that of the sketch, since no rank has the sum.
    rounding: [P], at stage `update` how far the rounding of the parameters themselves may be behind, as a norm.
    """

    sketch: NDArray[np.float64]
    norm2: NDArray[np.float64]
    absmax: NDArray[np.float64]
    nonfinite: NDArray[np.int64]
    present: NDArray[np.uint8]
    rank_sketch: NDArray[np.float64] | None = None
    full: Mapping[str, NDArray[np.float32]] | None = None
    units: NDArray[np.float64] | None = None
    rounding: NDArray[np.float64] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What one run captured; `captures` is keyed by stage and step as in "reduced.1"."""

    header: RecordHeader
    captures: Mapping[str, Capture]

    def to_bytes(self, *, sketch_dtype: type[np.floating] = np.float32) -> bytes:
        """The record's file content. Sketches of parameters are kept as float32 unless float64 is asked for."""
        arrays: dict[str, NDArray[np.generic]] = {}
        for key, capture in self.captures.items():
            arrays[f"{key}.sketch"] = capture.sketch.astype(sketch_dtype)
            arrays[f"{key}.norm2"] = capture.norm2.astype(np.float64)
            arrays[f"{key}.absmax"] = capture.absmax.astype(np.float64)
            arrays[f"{key}.nonfinite"] = capture.nonfinite.astype(np.int64)
            arrays[f"{key}.present"] = capture.present.astype(np.uint8)
            if capture.rank_sketch is not None:
                arrays[f"{key}.rank_sketch"] = capture.rank_sketch.astype(sketch_dtype)
            if capture.units is not None:
                arrays[f"{key}.unit_sketch"] = capture.units.astype(sketch_dtype)
            if capture.rounding is not None:
                arrays[f"{key}.rounding"] = capture.rounding.astype(np.float64)
            for name, values in (capture.full or {}).items():
                arrays[f"full/{key}/{name}"] = values
        return to_bytes(dump_header(self.header, "record", FORMAT), arrays)

    def write(self, path: Path, *, sketch_dtype: type[np.floating] = np.float32) -> None:
        """Writes the file so that it appears whole or not at all."""
        write_atomically(path, self.to_bytes(sketch_dtype=sketch_dtype))


def read_record(path: Path) -> Record:
    """The record at `path`; raises InvalidFile or UnknownFormat where header and arrays do not agree."""
    container = open_container(path, "record")
    header = parse_header(RecordHeader, container.document, path)
    check_parameters(header.parameters, path, ranks=header.layout.dp)
    keys = [str(stage) for stage in header.stages]
    if not keys or len(set(keys)) != len(keys):
        invalid(path, "stages", "at least one, each once", keys)
    if any(not item.stage or item.step < 1 for item in header.stages):
        invalid(path, "stages", "a stage and a step of at least 1 each", keys)
    return Record(header=header, captures={key: _capture(container, key, header) for key in keys})


def _grouped(container: Container, key: str, header: RecordHeader) -> int:
    """Rows of unit sketches, which must be accum times a divisor of dp."""
    name, layout = f"{key}.unit_sketch", header.layout
    rows = container.shapes[name][0] if container.shapes[name] else 0
    if rows < 1 or rows % layout.accum or layout.dp % (rows // layout.accum):
        invalid(container.path, name, f"accum = {layout.accum} times a divisor of dp = {layout.dp} rows", rows)
    return rows


def _capture(container: Container, key: str, header: RecordHeader) -> Capture:
    count = len(header.parameters)
    floats = ("F32", "F64")

    def row(name: str, kinds: tuple[str, ...]) -> NDArray[np.generic]:
        return container.array(f"{key}.{name}", shape=(count,), kinds=kinds)

    rank_sketch = None
    if f"{key}.rank_sketch" in container.names:
        shape = (header.layout.dp, count, BUCKETS)
        rank_sketch = container.array(f"{key}.rank_sketch", shape=shape, kinds=floats).astype(np.float64)
    units = None
    if f"{key}.unit_sketch" in container.names:
        shape = (_grouped(container, key, header), count, BUCKETS)
        units = container.array(f"{key}.unit_sketch", shape=shape, kinds=floats).astype(np.float64)
    rounding = row("rounding", floats).astype(np.float64) if f"{key}.rounding" in container.names else None
    prefix = f"full/{key}/"
    full = {
        parameter.name: container.array(prefix + parameter.name, shape=parameter.shape, kinds=("F32",))
        for parameter in header.parameters
        if prefix + parameter.name in container.names
    }
    capture = Capture(
        sketch=container.array(f"{key}.sketch", shape=(count, BUCKETS), kinds=floats).astype(np.float64),
        norm2=row("norm2", floats).astype(np.float64),
        absmax=row("absmax", floats).astype(np.float64),
        nonfinite=row("nonfinite", ("I64",)).astype(np.int64),
        present=row("present", ("U8",)).astype(np.uint8),
        rank_sketch=rank_sketch,
        full=full or None,
        units=units,
        rounding=rounding,
    )
    for name, wrong in (
        ("norm2", capture.norm2 < 0),
        ("absmax", capture.absmax < 0),
        ("nonfinite", capture.nonfinite < 0),
        ("present", capture.present > 1),
    ):
        if wrong.any():
            place = int(np.argmax(wrong))
            expected = "0 or 1" if name == "present" else "at least 0"
            found = getattr(capture, name)[place]
            invalid(container.path, f"{key}.{name}: {header.parameters[place].name}", expected, found)
    return capture
