"""The deepspeed module made ready for ranks; a fork server imports this once. Needs a DeepSpeed release.

No line of the package is touched. Of its extensions `deepspeed_shm_comm` is declared incompatible, as DeepSpeed does
itself where there is no compiler: only inference uses it, and it would be compiled for minutes at the first start. Old
releases import names that are gone: see deepspeed_past.py.
"""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Iterator
from importlib import import_module

from gradassay.harness.strategies.deepspeed_past import communicate, put_in_place


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keeps DeepSpeed's chatter off stdout and its log at errors."""
    logging.getLogger("DeepSpeed").setLevel(logging.ERROR)
    with contextlib.redirect_stdout(sys.stderr):
        yield


STANDING_IN = put_in_place()
"""Names that old releases import and that were added here; () with others."""

with quiet():
    import deepspeed
    import deepspeed.moe.layer
    import deepspeed.ops
    import deepspeed.runtime.zero.stage3

    # What newer releases import in the middle of a step.
    for _name in ("deepspeed.module_inject.auto_ep_layer", "deepspeed.runtime.zero.muon.muon_optimizer"):
        with contextlib.suppress(ModuleNotFoundError):
            import_module(_name)
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    communicate(deepspeed.accelerator.get_accelerator())

__all__ = ["STANDING_IN", "deepspeed", "quiet"]
