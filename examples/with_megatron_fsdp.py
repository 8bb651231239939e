"""A model that Megatron-FSDP shards.

1. pip install megatron-fsdp
2. torchrun --nproc-per-node 2 examples/with_megatron_fsdp.py run.safetensors
3. gradassay diff run.safetensors
4. gradassay diff golden:dense-tiny.float32@approved run.safetensors

5. torchrun --nproc-per-node 2 examples/with_megatron_fsdp.py run.safetensors unfused

With `unfused` gradients are divided after they were added up, which releases before 0.3.0 did again in every micro-batch
(Megatron-LM #3023); the third command says so. It needs no golden: the record holds every micro-batch's own gradient.
"""

from __future__ import annotations

import sys

import torch
import torch._dynamo  # before the stand-ins, whose functions it would take for torch's own
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from gradassay.harness import Layout, Recorder, load_problem

# As `import megatron_fsdp`; where there is no GPU, with stand-ins for the CUDA calls that it makes.
from gradassay.harness.strategies.megatron_fsdp_module import megatron_fsdp


def main(out: str, *, fused: bool) -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    dist.init_process_group("nccl" if device == "cuda" else "gloo")
    problem, layout = load_problem("dense-tiny"), Layout(dp=dist.get_world_size(), accum=3)
    if device == "cuda":
        torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    built = problem.build(torch.float32, device=device)
    model = megatron_fsdp.fully_shard_model(
        module=built,
        device=torch.device(device, torch.cuda.current_device()) if device == "cuda" else torch.device("cpu"),
        fsdp_unit_modules=[type(problem.blocks(built)[0])],
        device_mesh=init_device_mesh(device, (layout.dp, 1), mesh_dim_names=("dp", "tp")),
        dp_shard_dim="dp",
        tp_dim="tp",
    )
    model.ddp_config.gradient_reduce_div_fusion = fused
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=False)
    megatron_fsdp.fully_shard_optimizer(optimizer)
    version = str(megatron_fsdp.__version__).split("+")[0]
    recorder = Recorder(problem, layout, framework="megatron-fsdp", version=version, self_assay=True)
    recorder.watch(model)
    for micro in range(layout.accum):
        batch = problem.batch(layout.unit(dist.get_rank(), micro), device)
        (sum(problem.losses(model, batch).values()) / layout.accum).backward()
    recorder.capture(model)
    recorder.save(out)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], fused="unfused" not in sys.argv[2:])
