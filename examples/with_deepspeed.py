"""A DeepSpeed engine of any ZeRO stage.

1. pip install deepspeed
2. torchrun --nproc-per-node 2 examples/with_deepspeed.py run.safetensors 2
3. gradassay diff golden:moe-tiny.float32@approved run.safetensors

The second argument is the stage. Without GPUs set DS_ACCELERATOR=cpu.
"""

from __future__ import annotations

import sys

import torch
import torch.distributed as dist

from gradassay.harness import Layout, Recorder, load_problem

# As `import deepspeed`, but on CPUs without minutes of compiling what only inference needs.
from gradassay.harness.strategies.deepspeed_module import deepspeed


def main(out: str, stage: int) -> None:
    dist.init_process_group("gloo")
    problem, layout = load_problem("moe-tiny"), Layout(dp=dist.get_world_size(), accum=2)
    model = problem.build(torch.float32)
    engine, *_ = deepspeed.initialize(
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        config={
            "train_micro_batch_size_per_gpu": 1,
            "gradient_accumulation_steps": layout.accum,
            "zero_allow_untested_optimizer": True,
            "zero_optimization": {"stage": stage},
        },
        dist_init_required=False,
    )
    version = deepspeed.__version__.split("+")[0]
    recorder = Recorder(problem, layout, framework="deepspeed", version=version, self_assay=True)
    recorder.watch(engine)
    for micro in range(layout.accum):
        batch = problem.batch(layout.unit(dist.get_rank(), micro))
        engine.backward(sum(problem.losses(engine, batch).values()))
        if micro == layout.accum - 1:
            recorder.capture(engine)  # between the last backward() of the window and its step()
        engine.step()
    recorder.save(out)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
