"""Bytes of a record and of a golden per byte of the gradients, for the shapes of large models, as JSON.

PYTHONPATH=ci python -m bench.bytes [--quick]

Records are written as real files with random sketches. Goldens are as well, of one unit and of two: what each further
unit adds is the difference, which is checked on a file of all the units for the smaller model.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench import models
from gradassay.goldens.golden import read_golden
from gradassay.goldens.header import Parameter
from gradassay.goldens.record import read_record

UNITS = 24
ITEM_BYTES = {"float32": 4, "bfloat16": 2}
CHECKED = "1B dense"


def main() -> None:
    """Prints {"files": [...], "checked": [...]}."""
    parser = argparse.ArgumentParser(description="sizes of records and goldens")
    parser.add_argument("--quick", action="store_true", help="a model of few tensors instead of the largest")
    given = parser.parse_args()
    chosen: dict[str, Callable[[], Sequence[Parameter]]] = {CHECKED: models.dense_1b, "30B MoE": models.moe_30b}
    if given.quick:
        chosen["30B MoE"] = lambda: models.moe_30b()[:500]
    files: list[dict[str, Any]] = []
    checked: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="gradassay-bench-") as name:
        folder = Path(name)
        for model, shapes in chosen.items():
            parameters = shapes()
            record, golden = _record_bytes(parameters, folder), _golden_bytes(parameters, folder)
            files += [_case(model, parameters, dtype, record, golden(UNITS)) for dtype in ITEM_BYTES]
            if model == CHECKED:
                written = _written(parameters, UNITS, folder)
                checked.append(
                    {"model": model, "units": UNITS, "golden_bytes": golden(UNITS), "written_bytes": written}
                )
    print(json.dumps({"files": files, "checked": checked}))


def _case(model: str, parameters: Sequence[Parameter], dtype: str, record: int, golden: int) -> dict[str, Any]:
    elements = sum(parameter.numel for parameter in parameters)
    gradient = elements * ITEM_BYTES[dtype]
    return {
        "model": model,
        "tensors": len(parameters),
        "elements": elements,
        "gradients": dtype,
        "gradient_bytes": gradient,
        "record_bytes": record,
        "record_share": record / gradient,
        "units": UNITS,
        "golden_bytes": golden,
        "golden_share": golden / gradient,
        "golden_share_per_unit": golden / (gradient * UNITS),
    }


def _record_bytes(parameters: Sequence[Parameter], folder: Path) -> int:
    path = folder / "record.safetensors"
    models.lone_record(parameters).write(path)
    read_record(path)
    return path.stat().st_size


def _golden_bytes(parameters: Sequence[Parameter], folder: Path) -> Callable[[int], int]:
    one, two = (_written(parameters, units, folder) for units in (1, 2))
    return lambda units: one + (units - 1) * (two - one)


def _written(parameters: Sequence[Parameter], units: int, folder: Path) -> int:
    path = folder / "golden.safetensors"
    models.golden(parameters, units).write(path)
    read_golden(path)
    return path.stat().st_size


if __name__ == "__main__":
    main()
