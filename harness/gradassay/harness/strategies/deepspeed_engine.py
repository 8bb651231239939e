"""What a DeepSpeed engine says of itself: its stage, its loss scale, and whether it holds a reduced gradient now.

Reads attributes that exist from 0.12 to 0.19; local, and changes nothing. The engine need not be one of ours.
"""

from __future__ import annotations

from typing import Any


def stage_of(engine: Any) -> int:
    """The engine's ZeRO stage, 0 to 3."""
    return int(engine.zero_optimization_stage())


def loss_scale(engine: Any) -> float:
    """What the engine's step is going to divide gradients by, as losses should have been multiplied by it; 1 outside of fp16.

    In bfloat16 stage 0 of releases before 0.18.6 divides by a scale that nobody asked for (DeepSpeed 7839): that is the
    step's doing, and shows after it.
    """
    return float(engine.optimizer.loss_scale) if engine.fp16_enabled() else 1.0


def passes(engine: Any) -> int | None:
    """Backward passes since the last update of the parameters; None for stages 0 and 1, which not all releases count."""
    stage, optimizer = stage_of(engine), engine.optimizer
    if stage == 2:
        return int(optimizer.micro_step_id) + 1
    if stage == 3:
        # Newer releases count a pass when the next one begins.
        return int(optimizer.micro_step_id) + int(getattr(optimizer, "_epilogue_ran_this_backward", False))
    return None


def engine_moment(engine: Any) -> str | None:
    """Why the engine does not hold a whole window's reduced gradient now, None where it does.

    The moment is between the window's last `engine.backward()` and its `engine.step()`. A stage 0 engine counts no passes:
    there a capture between the last micro-batch's forward and backward pass is not seen.
    """
    window, counted = int(engine.gradient_accumulation_steps()), passes(engine)
    stepped = int(engine.micro_steps) % window
    if getattr(engine, "inside_no_sync_ctxt", False):
        return "the engine is under no_sync(), where it reduces nothing"
    if not getattr(engine, "managed_gradient_accumulation", lambda: True)():
        return "with managed_gradient_accumulation = false the engine reduces within engine.step() only"
    if counted == 0 or (counted is None and not stepped and _empty(engine)):
        since = f"update number {engine.global_steps}, which has used them" if engine.global_steps else "the start"
        return f"no gradients: no backward pass since {since}"
    if not engine.is_gradient_accumulation_boundary():
        return f"the window is not over: engine.step() has counted {stepped} of {window} micro-batches"
    if counted is None and not engine.tput_timer.started:
        return f"the window is not over: the last of {window} micro-batches has not begun"
    if counted is not None and engine._is_gradient_accumulation_boundary is None and counted < window:
        return f"the window is not over: {counted} of {window} backward passes have run"
    if not _reduced(engine):
        return "the engine has reduced nothing in this window: the last backward pass has not run, or under no_sync()"
    return None


def _empty(engine: Any) -> bool:
    """Whether an engine of stage 0 or 1 holds no gradient, neither of a parameter, nor of a master, nor averaged."""
    masters = (getattr(parameter, "_hp_grad", None) for parameter in engine.module.parameters())
    return (
        all(parameter.grad is None for parameter in engine.module.parameters())
        and all(master is None or not master.any() for master in masters)
        and not (stage_of(engine) and hasattr(engine.optimizer, "averaged_gradients") and _reduced(engine))
    )


def _reduced(engine: Any) -> bool:
    """Whether a stage 1 or 2 optimizer holds averaged gradients of every group; true where none are kept."""
    averaged = getattr(engine.optimizer, "averaged_gradients", None)
    if averaged is None or stage_of(engine) not in (1, 2):
        return True
    return all(averaged.get(group) is not None for group in range(len(engine.optimizer.bit16_groups)))
