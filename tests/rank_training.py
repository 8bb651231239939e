"""Somebody's own training script, captured by a Recorder: models of several kinds, and moments right and wrong."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from gradassay.harness import Layout, load_problem


@contextmanager
def ranks() -> Iterator[int]:
    """This rank's number, in a process group over gloo."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    try:
        yield dist.get_rank()
    finally:
        dist.destroy_process_group()


def made(kind: str, layout: Layout, name: str = "moe-tiny", dtype: Any = None) -> Any:
    """A model of `name`: plain, ddp, compiled-ddp, fsdp2, hsdp, tp or tp-fsdp2."""
    import torch
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
    from torch.nn.parallel import DistributedDataParallel

    problem = load_problem(name)
    model: Any = problem.build(dtype or torch.float32)
    mesh = None
    if kind.startswith("tp"):
        mesh = init_device_mesh("cpu", (layout.dp, layout.tp), mesh_dim_names=("dp", "tp"))
        for block in problem.blocks(model):
            parallelize_module(block, mesh["tp"], {"mlp.up": ColwiseParallel(), "mlp.down": RowwiseParallel()})
        mesh = mesh["dp"]
    if kind == "hsdp":
        shards = layout.dp // layout.replicate
        mesh = init_device_mesh("cpu", (layout.replicate, shards), mesh_dim_names=("replicate", "shard"))
    if kind.endswith("ddp"):
        model = DistributedDataParallel(model)
    if kind == "compiled-ddp":
        model = torch.compile(model, backend="eager")
    if kind.endswith(("fsdp2", "hsdp")):
        for block in problem.blocks(model):
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
    return model


def backward(model: Any, layout: Layout, micro: int, rank: int, name: str = "moe-tiny") -> None:
    """One micro-batch."""
    problem = load_problem(name)
    loss = sum(problem.losses(model, problem.batch(layout.unit(rank // layout.tp, micro))).values())
    (loss / layout.accum).backward()


def averaged(model: Any, layout: Layout) -> None:
    """A reduction by hand: the mean over data-parallel ranks of what nothing else reduces."""
    import torch.distributed as dist

    groups = [dist.new_group(list(range(place, layout.world, layout.tp))) for place in range(layout.tp)]
    for parameter in model.parameters():
        gradient = getattr(parameter.grad, "_local_tensor", parameter.grad)
        dist.all_reduce(gradient, group=groups[dist.get_rank() % layout.tp])
        gradient /= layout.dp


def train_and_record(kind: str, layout: Layout, out: Path, name: str = "moe-tiny", self_assay: bool = False) -> Any:
    """A step, recorded, with every micro-batch's own gradient where `self_assay`.

    Returns whether the file is there once save returns.
    """
    from gradassay.harness import Recorder

    with ranks() as rank:
        model = made(kind, layout, name)
        recorder = Recorder(load_problem(name), layout, framework="mine", self_assay=self_assay)
        if self_assay:
            recorder.watch(model)
        for micro in range(layout.accum):
            backward(model, layout, micro, rank, name)
        if kind in ("plain", "tp"):
            averaged(model, layout)
        recorder.capture(model)
        recorder.save(out)
        return out.exists()


def moments(kind: str, layout: Layout, case: str, out: Path) -> str:
    """A step in which something is done at a wrong moment, or wrongly at the right one; what the capture says of it."""
    import torch

    from gradassay.goldens.errors import GradassayError
    from gradassay.harness import Recorder

    with ranks() as rank:
        model = made(kind, layout)
        recorder = Recorder(load_problem("moe-tiny"), layout, framework="mine")
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, foreach=False)
        try:
            for step in range(2 if case in ("second-step", "second-step-no-sync") else 1):
                _window(model, layout, rank, "no-sync" if step and case == "second-step-no-sync" else case)
                if kind in ("plain", "tp") and case != "unreduced":
                    averaged(model, layout)
                if case == "clipped":
                    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.05)
                if case == "clipped-values":
                    torch.nn.utils.clip_grad_value_(model.parameters(), 0.0001)
                if case == "updated":
                    optimizer.step()
                if case == "cleared":
                    optimizer.zero_grad()
                if case == "zeroed":
                    optimizer.zero_grad(set_to_none=False)
                with model.no_sync() if case == "inside-no-sync" else nullcontext():
                    recorder.capture(model, step=step + 1)
                optimizer.step()
                optimizer.zero_grad(set_to_none=step == 0)
        except GradassayError as error:
            return f"{type(error).__name__} {error.facts.get('moment')}"
        recorder.save(out)
        return "recorded"


def stages(out: Path) -> bool:
    """Two steps with every stage, of which the second trains on what SGD has updated."""
    import torch

    from gradassay.harness import Recorder

    layout, rate = Layout(dp=2, accum=2), 0.5
    with ranks() as rank:
        model = made("ddp", layout, "dense-tiny")
        recorder = Recorder(load_problem("dense-tiny"), layout, self_assay=True)
        optimizer = torch.optim.SGD(model.parameters(), lr=rate)
        for step in (1, 2):
            recorder.watch(model)
            for micro in range(layout.accum):
                backward(model, layout, micro, rank, "dense-tiny")
            recorder.capture(model, step=step)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.05)
            recorder.capture(model, stage="clipped", step=step)
            with recorder.update(model, learning_rate=rate, max_norm=0.05, step=step):
                optimizer.step()
            optimizer.zero_grad()
        recorder.save(out)
        return True


def without_problem(case: str, out: Path) -> str:
    """Self-assay of a model that has no problem; case: right, one-more (micro-batch) or unwatched."""
    import torch
    from torch.utils.checkpoint import checkpoint

    from gradassay.goldens.errors import GradassayError
    from gradassay.harness import Recorder

    layout = Layout(dp=2, accum=3)
    with ranks() as rank:
        torch.manual_seed(0)
        inner = torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.GELU(), torch.nn.Linear(64, 8))

        class Checkpointed(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.inner = inner

            def forward(self, inputs: torch.Tensor) -> torch.Tensor:
                return checkpoint(self.inner, inputs, use_reentrant=False)

        model = torch.nn.parallel.DistributedDataParallel(Checkpointed())
        recorder = Recorder(None, layout, self_assay=True)
        handles = sum(len(parameter._backward_hooks or ()) for parameter in inner.parameters())
        try:
            if case != "unwatched":
                recorder.watch(model)
            with torch.no_grad():
                model(torch.ones(1, 8))
            for micro in range(layout.accum + (case == "one-more")):
                torch.manual_seed(layout.unit(rank, micro))
                (model(torch.randn(4, 8)).square().mean() / layout.accum).backward()
            recorder.capture(model)
        except GradassayError as error:
            return f"{type(error).__name__} {error.facts.get('found')} {error.facts.get('expected')}"
        assert sum(len(parameter._backward_hooks or ()) for parameter in inner.parameters()) == handles
        recorder.save(out)
        return "recorded"


def _window(model: Any, layout: Layout, rank: int, case: str) -> None:
    """All micro-batches; case: which of them are reduced, and when that is said."""
    problem = load_problem("moe-tiny")
    if case == "toggled-after":
        # What nanoGPT once did: the flag of a micro-batch is set after its forward pass has read it.
        model.require_backward_grad_sync = True
        for micro in range(layout.accum):
            loss = sum(problem.losses(model, problem.batch(layout.unit(rank, micro))).values())
            model.require_backward_grad_sync = micro == layout.accum - 1
            (loss / layout.accum).backward()
        return
    for micro in range(layout.accum):
        if case == "unreduced" and hasattr(model, "set_requires_gradient_sync"):
            model.set_requires_gradient_sync(False)
        if case == "half-replicated":
            model.set_requires_all_reduce(False)
        with model.no_sync() if case == "no-sync" else nullcontext():
            backward(model, layout, micro, rank)


def copies_apart(layout: Layout, out: Path) -> bool:
    """Tensor-parallel ranks whose copies of the last norm differ."""
    from gradassay.harness import Recorder

    with ranks() as rank:
        model = made("tp", layout)
        backward(model, layout, 0, rank)
        averaged(model, layout)
        if rank % 2:
            model.norm.weight.grad *= 2
        recorder = Recorder(load_problem("moe-tiny"), layout)
        recorder.capture(model)
        recorder.save(out)
        return True
