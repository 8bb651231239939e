"""A model that has no reference and no golden: the record holds what it is judged by.

1. torchrun --nproc-per-node 2 examples/self_assay.py run.safetensors
2. gradassay diff run.safetensors

Every rank sketches its own gradient of every micro-batch before accumulation and reduction; the reduced gradient is
compared with those.
"""

from __future__ import annotations

import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from gradassay.harness import Layout, Recorder

ACCUM = 3


def main(out: str) -> None:
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = DistributedDataParallel(
        nn.Sequential(nn.Embedding(64, 32), nn.Flatten(), nn.Linear(8 * 32, 128), nn.GELU(), nn.Linear(128, 64))
    )
    layout = Layout(dp=dist.get_world_size(), accum=ACCUM)
    recorder = Recorder(None, layout, framework="mine", self_assay=True)
    recorder.watch(model)  # before the first micro-batch of the step
    torch.manual_seed(1 + dist.get_rank())
    for micro in range(ACCUM):
        model.require_backward_grad_sync = micro == ACCUM - 1
        inputs, targets = torch.randint(64, (16, 8)), torch.randint(64, (16,))
        (nn.functional.cross_entropy(model(inputs), targets) / ACCUM).backward()
    recorder.capture(model)
    recorder.save(out)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
