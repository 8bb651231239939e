from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from gradassay.goldens.errors import UsageError
from gradassay.goldens.layout import Layout
from gradassay.harness.mesh import Ranks
from gradassay.harness.problems import load_problem
from gradassay.harness.strategies import cuda_stand_in, load, megatron_core_device
from gradassay.harness.strategies.megatron_core_moe import RoutedLayer
from gradassay.harness.strategies.megatron_core_pieces import Share, shares
from gradassay.harness.strategies.protocol import check_plan
from gradassay.harness.strategies.task import Plan, Task

NAME = "megatron-ddp"
SHARDED = {"use_distributed_optimizer": "true"}


def plan(problem: str = "moe-tiny", layout: str = "dp4", dtype: str = "float32", **options: str) -> Plan:
    return Plan(problem=load_problem(problem), layout=Layout.parse(layout), dtype=dtype, options=options)


@pytest.mark.parametrize(
    ("refused", "reason"),
    [
        (plan(dtype="float64"), "does not run dtype float64"),
        (plan(layout="dp4.tp2"), "does not run tp = 2"),
        (plan(layout="dp4.ep4.replicate2", **SHARDED), "ep = 4 does not divide dp/replicate = 2"),
        (plan(layout="dp4.replicate2"), "replicate > 1 only with use_distributed_optimizer = true"),
        (plan(reduce_scatter_with_fp32_accumulation="true"), "only with use_distributed_optimizer = true"),
        (
            plan(reduce_scatter_with_fp32_accumulation="true", average_in_collective="true", **SHARDED),
            "only with average_in_collective = false",
        ),
        (
            plan(layout="dp4.replicate2", reduce_scatter_with_fp32_accumulation="true", **SHARDED),
            "only with replicate = 1",
        ),
        (
            plan(calculate_per_token_loss="true", average_in_collective="true"),
            "only with average_in_collective = false",
        ),
        (plan(bucket_size="1000"), "bucket_size only with overlap_grad_reduce = true"),
        (plan(average_in_collective="yes"), "average_in_collective = 'yes'"),
    ],
)
def test_what_the_package_refuses_or_ignores_is_refused_before_any_rank(refused: Plan, reason: str) -> None:
    with pytest.raises(UsageError, match=reason) as caught:
        check_plan(load(NAME), refused)
    assert caught.value.hint


@pytest.mark.parametrize(
    "accepted",
    [
        plan(layout="dp6.ep2.accum4", dtype="bfloat16", grad_reduce_in_fp32="false"),
        plan(layout="dp4.ep2.replicate2", overlap_grad_reduce="true", bucket_size="1000", **SHARDED),
        plan("ragged-tiny", calculate_per_token_loss="true"),
        plan(reduce_scatter_with_fp32_accumulation="true", moe_token_dispatcher_type="allgather", **SHARDED),
    ],
)
def test_what_the_package_runs_is_accepted(accepted: Plan) -> None:
    check_plan(load(NAME), accepted)


def test_without_megatron_core_the_release_is_asked_for() -> None:
    task = Task(plan=plan(layout="dp1"), ranks=Ranks(layout=Layout(), dp_rank=0), device=torch.device("cpu"))
    with pytest.raises(UsageError, match=r"megatron\.core cannot be imported here") as caught:
        load(NAME).start(task)
    assert "megatron-core==" in caught.value.hint


def wrapped(sizes: dict[str, tuple[int, int, int]], buckets: list[tuple[int, int]], size: int, rank: int) -> Any:
    """A `DistributedDataParallel` with one dense buffer, as far as it is read. sizes: (first, end, bucket) by name."""
    parameters = {name: SimpleNamespace(name=name) for name in sizes}
    buffer = SimpleNamespace(
        param_index_map=_ByIdentity([(parameters[name], place) for name, place in sizes.items()]),
        buckets=[SimpleNamespace(offset=first, grad_data=torch.zeros(end - first)) for first, end in buckets],
        data_parallel_group=SimpleNamespace(size=lambda: size, rank=lambda: rank % size),
    )
    return SimpleNamespace(
        ddp_config=SimpleNamespace(use_distributed_optimizer=True),
        buffers=[buffer],
        expert_parallel_buffers=[],
        names={id(parameter): name for name, parameter in parameters.items()},
    )


class _ByIdentity:
    def __init__(self, pairs: list[tuple[Any, tuple[int, int, int]]]) -> None:
        self.items: Callable[[], list[tuple[Any, tuple[int, int, int]]]] = lambda: pairs


SIZES = {"c": (0, 5, 0), "b": (64, 71, 0), "a": (128, 231, 1)}
BUCKETS = [(0, 128), (128, 256)]


@pytest.mark.parametrize(("group", "copies"), [(4, 1), (2, 2)])
def test_cuts_cover_every_parameter_once_a_copy(group: int, copies: int) -> None:
    layout = Layout(dp=4)
    covered: dict[tuple[str, int], list[int]] = {}
    for rank in range(layout.dp):
        model = wrapped(SIZES, BUCKETS, group, rank)
        for share in shares(model, model.names, Ranks(layout=layout, dp_rank=rank)):
            assert share.length > 0
            covered.setdefault((share.name, share.replica), []).extend(range(share.start, share.start + share.length))
    assert covered == {
        (name, copy): list(range(end - first)) for name, (first, end, _) in SIZES.items() for copy in range(copies)
    }


def test_without_the_distributed_optimizer_every_rank_holds_all() -> None:
    model = wrapped(SIZES, BUCKETS, 4, 3)
    model.ddp_config.use_distributed_optimizer = False
    found = shares(model, model.names, Ranks(layout=Layout(dp=4), dp_rank=3))
    assert [(share.name, share.start, share.length, share.replica) for share in found] == [
        ("c", 0, 5, 3),
        ("b", 0, 7, 3),
        ("a", 0, 103, 3),
    ]


def test_a_share_is_a_stretch_of_the_flattened_tensor() -> None:
    share = Share(name="a", parameter=None, start=2, length=3, replica=1)
    piece = share.piece(share.of(torch.arange(6.0).reshape(2, 3)))
    assert piece.values is not None
    assert piece.values.tolist() == [2.0, 3.0, 4.0]
    assert piece.runs.tolist() == [[2, 3]]
    assert piece.replica == 1


@pytest.mark.parametrize(
    ("local", "canonical"),
    [
        ("layer.router.weight", "layers.1.moe.router.weight"),
        ("layer.experts.local_experts.2.linear_fc1.weight", "layers.1.moe.experts.8.up.weight"),
        ("layer.experts.local_experts.0.linear_fc2.weight", "layers.1.moe.experts.6.down.weight"),
    ],
)
def test_experts_are_numbered_from_the_first_of_the_rank(local: str, canonical: str) -> None:
    layer: Any = SimpleNamespace(prefix="layers.1.moe", first_expert=6)
    assert RoutedLayer.canonical(layer, local) == canonical


@pytest.mark.skipif(not cuda_stand_in.is_needed(), reason="nothing stands in for CUDA where it is")
def test_names_of_cuda_mean_the_cpu_only_inside() -> None:
    with megatron_core_device.on_this_device():
        made = torch.tensor([1.0], device="cuda")
        assert made.device.type == "cpu"
        assert made.type() == "torch.cuda.FloatTensor"
        assert made.type(torch.float64).dtype == torch.float64
    assert made.type() == "torch.FloatTensor"
    with pytest.raises((AssertionError, RuntimeError)):
        torch.tensor([1.0], device="cuda")


def test_split_sizes_may_be_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(megatron_core_device, "_all_to_all", lambda *arguments, **options: seen.append(arguments[2:]))
    empty = torch.zeros(3)
    megatron_core_device.all_to_all_single(empty, empty, torch.tensor([1, 2]), [3, 0], group=None)
    megatron_core_device.all_to_all_single(output=empty, input=empty)
    assert seen == [([1, 2], [3, 0]), (None, None)]
