from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
import torch.distributed as dist

from gradassay.goldens.errors import UsageError
from gradassay.harness.strategies import cuda_stand_in
from gradassay.harness.strategies.cuda_stand_in import COLLECTIVES, STREAMS, Part, ScaledSum, device

PARTS = (STREAMS, COLLECTIVES, device(0))


@pytest.fixture(autouse=True)
def untouched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Puts back whatever a test installs."""
    for part in PARTS:
        for owner, attribute, _ in part.replacements:
            monkeypatch.setattr(owner, attribute, getattr(owner, attribute))
    monkeypatch.setattr(cuda_stand_in, "_installed", {})
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)


@pytest.fixture
def alone() -> Iterator[None]:
    """A process group of this process only."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def test_work_on_streams_is_always_done() -> None:
    cuda_stand_in.install(*PARTS)
    stream, values = torch.cuda.Stream(), torch.ones(3)
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        values += 1
        event = stream.record_event()
    event.wait()
    torch.cuda.synchronize()
    values.record_stream(stream)
    assert event.query()
    assert torch.equal(values.cuda(), torch.full((3,), 2.0))
    assert torch.cuda.current_device() == 0


def test_gloo_alone_lacks_what_is_stood_in_for(alone: None) -> None:
    with pytest.raises(RuntimeError, match=r"(?i)premul|ReduceOp"):
        dist.all_reduce(torch.ones(2), op=dist._make_nccl_premul_sum(0.25))


@pytest.mark.parametrize(("operation", "factor"), [(ScaledSum(0.25), 0.25), (dist.ReduceOp.AVG, 1.0), (None, 1.0)])
def test_reductions_scale_what_they_sum(alone: None, operation: object, factor: float) -> None:
    cuda_stand_in.install(*PARTS)
    given = {} if operation is None else {"op": operation}
    source, target, reduced = torch.tensor([1.0, -3.0]), torch.zeros(2), torch.tensor([1.0, -3.0])
    dist.reduce_scatter_tensor(output=target, input=source, **given)
    work = dist.all_reduce(reduced, async_op=True, **given)
    assert work.wait()
    assert torch.equal(target, source * factor)
    assert torch.equal(source, torch.tensor([1.0, -3.0]))
    assert torch.equal(reduced, source * factor)


def test_fused_factor_is_what_the_framework_asked_for(alone: None) -> None:
    cuda_stand_in.install(*PARTS)
    assert dist._make_nccl_premul_sum(0.5) == ScaledSum(0.5)


def test_collectives_have_ended_when_they_return(alone: None) -> None:
    cuda_stand_in.install(*PARTS)
    gathered, source = torch.zeros(2), torch.ones(2)
    with dist._coalescing_manager(async_ops=True) as several:
        dist.all_gather_into_tensor(output_tensor=gathered, input_tensor=source, async_op=True)
        assert torch.equal(gathered, source)
    assert several.wait()


def test_facts_name_every_part_and_what_it_hides() -> None:
    assert cuda_stand_in.facts() == {}
    own = Part(name="own", hides="something", replacements=())
    cuda_stand_in.install(STREAMS, own)
    cuda_stand_in.install(STREAMS)
    assert cuda_stand_in.facts() == {
        "stand_in": {"for": "cuda", "parts": ["own", "streams"], "cannot_show": ["something", "races between streams"]}
    }


def test_nothing_stands_in_where_there_is_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    before = torch.cuda.Stream
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert not cuda_stand_in.is_needed()
    with pytest.raises(UsageError, match="2 GPUs"):
        cuda_stand_in.install(*PARTS)
    assert torch.cuda.Stream is before
    assert cuda_stand_in.facts() == {}
