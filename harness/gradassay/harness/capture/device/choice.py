"""Where a gradient is sketched: on the GPU that holds it, wherever triton is installed."""

from __future__ import annotations

import importlib.util
from functools import cache
from typing import TYPE_CHECKING

from torch import Tensor

from gradassay.goldens.errors import UsageError

if TYPE_CHECKING:
    import torch

    from gradassay.harness.capture.device.numbers import Numbers


def stays(values: Tensor) -> bool:
    """Whether values are sketched where they lie. If not they are copied to the CPU, and sketched there."""
    return values.is_cuda and has_triton()


@cache
def has_triton() -> bool:
    """Whether triton is installed; whether it works is seen when it is used."""
    return importlib.util.find_spec("triton") is not None


def described() -> str:
    """What sketches the gradients of a GPU here, for a record's environment."""
    if not has_triton():
        return "on the CPU: triton is not installed"
    _check()
    import triton

    return f"on the GPU, by triton {triton.__version__}"


def numbers(rows: int, device: torch.device) -> Numbers:
    """Sums on a device. Raises UsageError where triton is installed and cannot be imported."""
    _check()
    from gradassay.harness.capture.device.numbers import Numbers

    return Numbers(rows, device)


def fingerprints(found: list[Tensor]) -> list[int]:
    """63 bits of the bytes of 1-D tensors on devices: other ones for tensors that differ, but by chance.

    Raises UsageError as `numbers` does.
    """
    _check()
    from gradassay.harness.capture.device.fingerprints import fingerprints

    return fingerprints(found)


def _check() -> None:
    try:
        import triton.language  # noqa: F401
    except ImportError as error:
        raise UsageError(
            f"triton is installed but cannot be imported: {error}",
            hint="install the release that torch asks for, or none: gradients are sketched on the CPU then",
        ) from error
