"""Which GPUs are visible, from a list of those that there are."""

from __future__ import annotations

import subprocess
import sys

import pytest

from gradassay.harness.launch.devices import visible_gpus

UUIDS = ["GPU-8932f937", "GPU-a1b2c3d4", "GPU-a1ffffff"]


@pytest.mark.parametrize(
    ("variable", "names"),
    [
        (None, ["0", "1", "2"]),
        ("", []),
        ("-1", []),
        ("NoDevFiles", []),
        ("2,0", ["2", "0"]),
        (" 1 , 2 ", ["1", "2"]),
        ("1,-1,2", ["1"]),
        ("0,3,1", ["0"]),
        ("1,1", ["1"]),
        ("GPU-a1b2,0", ["GPU-a1b2", "0"]),
        ("GPU-a1", []),
        ("MIG-11111111-2222", ["MIG-11111111-2222"]),
    ],
)
def test_the_variable_is_read_as_cuda_reads_it(variable: str | None, names: list[str]) -> None:
    environment = {} if variable is None else {"CUDA_VISIBLE_DEVICES": variable}
    assert [gpu.name for gpu in visible_gpus(environment, uuids=UUIDS)] == names


def test_one_gpu_is_one_gpu_however_it_is_named() -> None:
    [number] = visible_gpus({"CUDA_VISIBLE_DEVICES": "1"}, uuids=UUIDS)
    [prefix] = visible_gpus({"CUDA_VISIBLE_DEVICES": "GPU-a1b2"}, uuids=UUIDS)
    assert number.uuid == prefix.uuid == UUIDS[1]
    assert [gpu.name for gpu in visible_gpus({"CUDA_VISIBLE_DEVICES": "1,GPU-a1b2"}, uuids=UUIDS)] == ["1"]


def test_without_a_driver_nothing_is_visible() -> None:
    assert visible_gpus({"CUDA_VISIBLE_DEVICES": "0,1"}, uuids=[]) == []


def test_asking_does_not_import_torch() -> None:
    code = (
        "import sys; from gradassay.harness.launch.slots import machine_slots; machine_slots(); "
        "assert 'torch' not in sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
