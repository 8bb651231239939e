"""The library's way in: a training script of one's own, captured."""

from __future__ import annotations

import pytest
import torch

from gradassay.goldens.errors import Incomplete, UsageError
from gradassay.goldens.record import read_record
from gradassay.harness import Layout, Recorder, load_problem
from rank_jobs import Failed, Job, run_jobs
from rank_training import train_and_record
from truths import captured, relative_error, truth_of


def _accumulated(layout: Layout) -> torch.nn.Module:
    problem = load_problem("ragged-tiny")
    model = problem.build(torch.float32)
    total = sum(problem.tokens(unit) for unit in range(layout.units))
    for unit in range(layout.units):
        loss = sum(problem.losses(model, problem.batch(unit)).values())
        (loss * (problem.tokens(unit) / total)).backward()
    return model


def test_a_plain_model(tmp_path):
    layout = Layout(accum=3)
    recorder = Recorder(
        load_problem("ragged-tiny"), layout, framework="mine", version="7", convention={"expert": "sum"}
    )
    recorder.capture(_accumulated(layout))
    recorder.save(tmp_path / "run.safetensors")
    record = read_record(tmp_path / "run.safetensors")
    assert relative_error(captured(record), truth_of("ragged-tiny").gradient(layout)).max() < 1e-6
    assert (record.header.framework.name, record.header.framework.version) == ("mine", "7")
    assert record.header.convention == {"expert": "sum"}


def test_names_of_ones_own_are_mapped():
    problem, model = load_problem("ragged-tiny"), _accumulated(Layout())
    wrapped = torch.nn.ModuleDict({"net": model})
    with pytest.raises(Incomplete, match=r"'net.embedding.weight', which is no parameter"):
        Recorder(problem, Layout()).capture(wrapped)
    names = {f"net.{parameter.name}": parameter.name for parameter in problem.parameters}
    recorder = Recorder(problem, Layout(), names=names)
    recorder.capture(wrapped)
    assert relative_error(captured(recorder.record()), truth_of("ragged-tiny").gradient(Layout())).max() < 1e-6


def test_a_parameter_left_out_is_an_error():
    model = _accumulated(Layout())
    model.norm.bias.requires_grad_(False)
    with pytest.raises(Incomplete, match=r"norm.bias: no rank holds it"):
        Recorder(load_problem("ragged-tiny"), Layout()).capture(model)


def test_a_gradient_never_computed_is_not_present():
    recorder = Recorder(load_problem("ragged-tiny"), Layout())
    recorder.capture(load_problem("ragged-tiny").build(torch.float32))
    assert not recorder.record().captures["reduced.1"].present.any()


def test_steps_and_stages_are_kept_apart(tmp_path):
    recorder = Recorder(load_problem("ragged-tiny"), Layout())
    with pytest.raises(UsageError, match="nothing was captured yet"):
        recorder.save(tmp_path / "run.safetensors")
    model = _accumulated(Layout())
    recorder.capture(model)
    recorder.capture(model, stage="clipped")
    recorder.capture(model, step=2)
    with pytest.raises(UsageError, match=r"reduced.2 was captured before"):
        recorder.capture(model, step=2)
    with pytest.raises(UsageError, match="no stage is called 'reducd'"):
        recorder.capture(model, stage="reducd")
    recorder.save(tmp_path / "run.safetensors")
    assert set(read_record(tmp_path / "run.safetensors").captures) == {"reduced.1", "clipped.1", "reduced.2"}


def test_a_layout_of_another_size_is_refused():
    with pytest.raises(UsageError, match="layout dp4 has 4 ranks, but this process group has 1"):
        Recorder(load_problem("ragged-tiny"), Layout(dp=4))
    with pytest.raises(UsageError, match=r"layout dp1.tp2: a Recorder captures data-parallel ranks"):
        Recorder(load_problem("ragged-tiny"), Layout(tp=2))


@pytest.mark.dist
def test_models_of_every_kind(tmp_path):
    kinds = ("plain", "ddp", "fsdp2", "forgotten")
    jobs = [Job(function=train_and_record, arguments=(kind, tmp_path / kind)) for kind in kinds]
    expected = truth_of("moe-tiny").gradient(Layout(dp=2, accum=2))
    for kind, returned in zip(kinds, run_jobs(2, jobs), strict=True):
        assert not any(isinstance(result, Failed) for result in returned), returned
        assert returned == [True, True], "the file is there for every rank once save returns"
        record = read_record(tmp_path / kind)
        error = relative_error(captured(record), expected).max()
        if kind == "forgotten":
            assert error > 0.1
            assert record.captures["reduced.1"].rank_sketch is not None, "ranks that were never reduced disagree"
        else:
            assert error < 1e-6
            assert record.captures["reduced.1"].rank_sketch is None
