"""A loop of Accelerate, with its own gradient accumulation.

1. pip install accelerate
2. torchrun --nproc-per-node 2 examples/with_accelerate.py run.safetensors
3. gradassay diff golden:moe-tiny.float32@approved run.safetensors
"""

from __future__ import annotations

import sys

import accelerate
import torch

from gradassay.harness import Layout, Recorder, load_problem

ACCUM = 2


def main(out: str) -> None:
    accelerator = accelerate.Accelerator(gradient_accumulation_steps=ACCUM, cpu=not torch.cuda.is_available())
    problem, layout = load_problem("moe-tiny"), Layout(dp=accelerator.num_processes, accum=ACCUM)
    model = problem.build(torch.float32)
    model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))
    recorder = Recorder(problem, layout, framework="accelerate", version=accelerate.__version__)
    for micro in range(ACCUM):
        with accelerator.accumulate(model):
            batch = problem.batch(layout.unit(accelerator.process_index, micro), accelerator.device)
            accelerator.backward(sum(problem.losses(model, batch).values()))
            if accelerator.sync_gradients:
                recorder.capture(model)  # before accelerator.clip_grad_norm_ and optimizer.step()
            optimizer.step()
            optimizer.zero_grad()
    recorder.save(out)
    accelerator.end_training()


if __name__ == "__main__":
    main(sys.argv[1])
