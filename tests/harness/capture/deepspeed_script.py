"""A script with DeepSpeed's own mixture of experts on two ranks; argument 2 says when it captures.

right, early (a micro-batch too soon), stepped (after engine.step()), no-problem (a model that has no reference).
"""

from __future__ import annotations

import sys

import torch
import torch.distributed as dist

from gradassay.goldens.errors import WrongMoment
from gradassay.harness import Layout, Recorder, load_problem
from gradassay.harness.mesh import join
from gradassay.harness.strategies.deepspeed_module import deepspeed
from gradassay.harness.strategies.deepspeed_moe import canonical_names, parameter_groups, routed_by_deepspeed


def main(out: str, case: str) -> None:
    dist.init_process_group("gloo")
    problem, layout = load_problem("moe-tiny"), Layout(dp=2, ep=2, accum=2)
    model = problem.build(torch.float32, routed=routed_by_deepspeed(join(layout)))
    names = {local: name for local, name in canonical_names(model).items() if local != name}
    problem.fill(model, names)
    engine, *_ = deepspeed.initialize(
        model=model,
        optimizer=torch.optim.SGD(parameter_groups(model), lr=0.1),
        config={
            "train_micro_batch_size_per_gpu": 1,
            "gradient_accumulation_steps": layout.accum,
            "zero_allow_untested_optimizer": True,
            "zero_optimization": {"stage": 2},
        },
        dist_init_required=False,
    )
    if case == "no-problem":
        recorder = Recorder(None, layout, framework="deepspeed", self_assay=True)
    else:
        recorder = Recorder(problem, layout, framework="deepspeed", names=names, self_assay=True)
    recorder.watch(engine)
    for micro in range(layout.accum):
        loss = sum(problem.losses(engine, problem.batch(layout.unit(dist.get_rank(), micro))).values())
        engine.backward(loss)
        last = micro == layout.accum - 1
        try:
            if (case == "early" and not last) or (last and case in ("right", "no-problem")):
                recorder.capture(engine)
            engine.step()
            if last and case == "stepped":
                recorder.capture(engine)
        except WrongMoment as error:
            print(f"moment: {error.facts['moment']}", flush=True)
            return
    recorder.save(out)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
    dist.destroy_process_group()
