"""The library's way in: a training script of one's own, captured."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from gradassay.goldens.errors import Incomplete, UsageError, WrongMoment
from gradassay.goldens.record import read_record
from gradassay.harness import Layout, Recorder, load_problem
from rank_jobs import Job, run_jobs
from rank_training import copies_apart, moments, stages, train_and_record, without_problem
from truths import captured, relative_error, truth_of


def _accumulated(layout: Layout, *, scale: float = 1.0) -> torch.nn.Module:
    problem = load_problem("ragged-tiny")
    model = problem.build(torch.float32)
    total = sum(problem.tokens(unit) for unit in range(layout.units))
    for unit in range(layout.units):
        loss = sum(problem.losses(model, problem.batch(unit)).values())
        (loss * (scale * problem.tokens(unit) / total)).backward()
    return model


def _error(recorder: Recorder, layout: Layout) -> float:
    return float(relative_error(captured(recorder.record()), truth_of("ragged-tiny").gradient(layout)).max())


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
    with pytest.raises(Incomplete, match=r"covered by no rule: 'net.embedding.weight'"):
        Recorder(problem, Layout()).capture(wrapped)
    recorder = Recorder(problem, Layout(), names={f"net.{one.name}": one.name for one in problem.parameters})
    recorder.capture(wrapped)
    assert _error(recorder, Layout()) < 1e-6
    with pytest.raises(UsageError, match="names without a problem"):
        Recorder(None, Layout(), names={"a": "b"})


def test_names_and_layouts_are_mapped_by_a_file(tmp_path: Path):
    problem, model = load_problem("ragged-tiny"), _accumulated(Layout())
    for layer in model.layers:
        weight = layer.mlp.up.weight
        layer.mlp.up.weight = torch.nn.Parameter(weight.detach().t().contiguous())
        layer.mlp.up.weight.grad = weight.grad.t().contiguous()
    path = tmp_path / "names.toml"
    path.write_text(
        'prefixes = ["module."]\n[[rule]]\nfrom = "layers.{layer}.mlp.up.weight"\nto = "layers.{layer}.mlp.up.weight"\n'
        "transpose = [1, 0]\n"
    )
    recorder = Recorder(problem, Layout(), names=path)
    recorder.capture(torch.nn.ModuleDict({"module": model}))
    assert _error(recorder, Layout()) < 1e-6


def test_a_parameter_left_out_is_an_error():
    model = _accumulated(Layout())
    model.norm.bias.requires_grad_(False)
    with pytest.raises(Incomplete, match=r"norm.bias: no rank holds it"):
        Recorder(load_problem("ragged-tiny"), Layout()).capture(model)


def test_a_gradient_never_computed_is_not_present():
    model = _accumulated(Layout())
    model.norm.bias.grad = None
    recorder = Recorder(load_problem("ragged-tiny"), Layout())
    recorder.capture(model)
    absent = np.flatnonzero(recorder.record().captures["reduced.1"].present == 0)
    assert [recorder.record().header.parameters[place].name for place in absent] == ["norm.bias"]


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
    with pytest.raises(UsageError, match="no stage 'reducd'\nchoose from reduced, clipped"):
        recorder.capture(model, stage="reducd")
    with pytest.raises(UsageError, match=r"no stage 'local'\nuse self_assay=True"):
        recorder.capture(model, stage="local")
    recorder.save(tmp_path / "run.safetensors")
    assert set(read_record(tmp_path / "run.safetensors").captures) == {"reduced.1", "clipped.1", "reduced.2"}


def test_a_layout_of_another_size_is_refused():
    with pytest.raises(UsageError, match="layout dp4 has 4 ranks, but this process group has 1"):
        Recorder(load_problem("ragged-tiny"), Layout(dp=4))
    with pytest.raises(
        UsageError, match=r"layout dp1.pp2: a Recorder captures data-parallel and tensor-parallel ranks"
    ):
        Recorder(load_problem("ragged-tiny"), Layout(pp=2))


def test_wrappers_that_are_not_known_are_named():
    wrapped = torch.nn.DataParallel(torch.nn.Linear(2, 2))
    with pytest.raises(UsageError, match=r"wrapped in DataParallel.*\nuse DistributedDataParallel"):
        Recorder(None, Layout()).capture(wrapped)

    class FullyShardedDataParallel(torch.nn.Linear):
        pass

    with pytest.raises(UsageError, match=r"FSDP1.*\n.*fully_shard"):
        Recorder(None, Layout()).capture(torch.nn.Sequential(FullyShardedDataParallel(2, 2)))


@pytest.mark.parametrize("unscaled", [False, True])
def test_a_scaler_on_either_side_of_unscaling(unscaled: bool):
    layout = Layout(accum=2)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    model = _accumulated(layout, scale=scaler.get_scale()) if scaler.is_enabled() else None
    assert model is not None
    scaler.scale(torch.zeros(1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    if unscaled:
        scaler.unscale_(optimizer)
    recorder = Recorder(load_problem("ragged-tiny"), layout)
    recorder.capture(model, scaler=scaler)
    assert _error(recorder, layout) < 1e-6


def test_a_scaler_in_between_is_a_wrong_moment():
    model = _accumulated(Layout(), scale=1024.0)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    scaler.scale(torch.zeros(1))
    parameters = list(model.parameters())
    first, second = (torch.optim.SGD(part, lr=0.1) for part in (parameters[:5], parameters[5:]))
    scaler.unscale_(first)
    recorder = Recorder(load_problem("ragged-tiny"), Layout())
    with pytest.raises(WrongMoment, match=r"unscaled: the scaler has unscaled .* (\d) of \d+ parameters") as raised:
        recorder.capture(model, scaler=scaler)
    assert raised.value.facts["moment"] == "unscaled"
    scaler.unscale_(second)
    scaler.step(first)
    with pytest.raises(
        WrongMoment, match=r"updated: the scaler has stepped an optimizer already|updated: the optimizer"
    ):
        recorder.capture(model, scaler=scaler)


def test_what_looks_like_clipping_may_be_recorded_anyway():
    model = _accumulated(Layout())
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    recorder = Recorder(load_problem("ragged-tiny"), Layout())
    with pytest.raises(
        WrongMoment, match=r"clipped: the total norm is 0\.\d+, what clip_grad_norm_ to 0.1 leaves"
    ) as raised:
        recorder.capture(model)
    assert raised.value.facts["max_norm"] == 0.1
    assert raised.value.facts["chance"] < 1e-4
    assert raised.value.kind.exit == 5
    with pytest.raises(UsageError, match="nothing was captured yet"):
        recorder.save("never-written")
    recorder.capture(model, stage="clipped")
    recorder.capture(model, anyway=True)
    assert set(recorder.record().captures) == {"clipped.1", "reduced.1"}


def test_a_step_taken_is_told_from_one_with_new_gradients():
    model = _accumulated(Layout())
    recorder = Recorder(load_problem("ragged-tiny"), Layout())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    optimizer.step()
    with pytest.raises(WrongMoment, match=r"updated: the optimizer has taken a step with these gradients"):
        recorder.capture(model)
    optimizer.zero_grad(set_to_none=False)
    problem = load_problem("ragged-tiny")
    sum(problem.losses(model, problem.batch(0)).values()).backward()
    recorder.capture(model)
    assert _error(recorder, Layout()) < 1e-6


KINDS = {
    "plain": Layout(dp=2, accum=2),
    "ddp": Layout(dp=2, accum=2),
    "compiled-ddp": Layout(dp=2, accum=2),
    "fsdp2": Layout(dp=2, accum=2),
}
WIDE_KINDS = {
    "hsdp": Layout(dp=4, replicate=2, accum=2),
    "tp": Layout(dp=2, tp=2, accum=2),
    "tp-fsdp2": Layout(dp=2, tp=2, accum=2),
}


@pytest.mark.dist
@pytest.mark.parametrize("kinds", [KINDS, WIDE_KINDS], ids=["two-ranks", "four-ranks"])
def test_models_of_every_kind_and_their_own_units(tmp_path: Path, kinds: dict[str, Layout]):
    jobs = [
        Job(function=train_and_record, arguments=(kind, layout, tmp_path / kind, "moe-tiny", True))
        for kind, layout in kinds.items()
    ]
    truth = truth_of("moe-tiny")
    returned = run_jobs(next(iter(kinds.values())).world, jobs)
    for (kind, layout), results in zip(kinds.items(), returned, strict=True):
        assert results == [True] * layout.world, "the file is there for every rank once save returns"
        record = read_record(tmp_path / kind)
        assert relative_error(captured(record), truth.gradient(layout)).max() < 1e-6, kind
        assert record.captures["reduced.1"].rank_sketch is None, kind
        units = record.captures["local.1"].units
        assert units is not None
        # A script's loss of a unit is its mean loss divided by accum.
        alone = sum(truth.terms.values())[: layout.units] / layout.accum
        reached = np.linalg.norm(alone, axis=2) > 0
        error = np.linalg.norm(units - alone, axis=2)[reached] / np.linalg.norm(alone, axis=2)[reached]
        assert error.max() < 2e-6, kind
        assert not units[~reached].any(), kind


MOMENTS = {
    ("ddp", "right"): "recorded",
    ("ddp", "no-sync"): "WrongMoment no-sync",
    ("ddp", "inside-no-sync"): "WrongMoment no-sync",
    ("ddp", "toggled-after"): "recorded",
    ("ddp", "second-step"): "recorded",
    ("ddp", "second-step-no-sync"): "WrongMoment no-sync",
    ("ddp", "clipped"): "WrongMoment clipped",
    ("ddp", "clipped-values"): "WrongMoment clipped",
    ("ddp", "updated"): "WrongMoment updated",
    ("ddp", "cleared"): "WrongMoment cleared",
    ("ddp", "zeroed"): "WrongMoment cleared",
    ("fsdp2", "right"): "recorded",
    ("fsdp2", "second-step"): "recorded",
    ("fsdp2", "unreduced"): "WrongMoment unreduced",
    ("fsdp2", "clipped"): "WrongMoment clipped",
    ("fsdp2", "updated"): "WrongMoment updated",
    ("plain", "right"): "recorded",
    ("plain", "unreduced"): "WrongMoment unreduced",
}
WIDE_MOMENTS = {
    ("hsdp", "right"): "recorded",
    ("hsdp", "half-replicated"): "WrongMoment unreduced",
    ("tp", "right"): "recorded",
    ("tp", "unreduced"): "WrongMoment unreduced",
}


@pytest.mark.dist
@pytest.mark.parametrize("expected", [MOMENTS, WIDE_MOMENTS], ids=["two-ranks", "four-ranks"])
def test_moments_right_and_wrong(tmp_path: Path, expected: dict[tuple[str, str], str]):
    layouts = {**KINDS, **WIDE_KINDS}
    world = layouts[next(iter(expected))[0]].world
    jobs = [
        Job(function=moments, arguments=(kind, layouts[kind], case, tmp_path / f"{kind}.{case}"))
        for kind, case in expected
    ]
    found = dict(zip(expected, run_jobs(world, jobs), strict=True))
    assert found == {key: [said] * world for key, said in expected.items()}
    written = {path.name for path in tmp_path.iterdir()}
    assert written == {f"{kind}.{case}" for (kind, case), said in expected.items() if said == "recorded"}
    if ("ddp", "toggled-after") in expected:
        # The script's fault, at the right moment: of the last micro-batch every rank has its own, the first is reduced.
        record, truth = read_record(tmp_path / "ddp.toggled-after"), sum(truth_of("moe-tiny").terms.values())
        copies = record.captures["reduced.1"].rank_sketch
        assert copies is not None
        for rank in (0, 1):
            due = (truth[0] + truth[1]) / 4 + truth[2 + rank] / 2
            assert relative_error(copies[rank], due).max() < 2e-6


@pytest.mark.dist
def test_copies_of_tensor_parallel_ranks_that_differ_are_kept(tmp_path: Path):
    layout = Layout(dp=2, tp=2)
    job = Job(function=copies_apart, arguments=(layout, tmp_path / "run"))
    assert run_jobs(4, [job]) == [[True] * 4]
    record = read_record(tmp_path / "run")
    copies = record.captures["reduced.1"].rank_sketch
    assert copies is not None
    place = [parameter.name for parameter in record.header.parameters].index("norm.weight")
    due = truth_of("moe-tiny").gradient(layout)[place]
    assert [float(copies[rank, place] @ due / (due @ due)) for rank in (0, 1)] == pytest.approx([1, 2], rel=1e-5)
    (returned,) = run_jobs(2, [Job(function=copies_apart, arguments=(Layout(tp=2), tmp_path / "one"))])
    assert [result.kind for result in returned] == ["Incomplete"] * 2, (
        "one data-parallel rank has no row for two copies"
    )
    assert "norm.weight" in returned[0].message


@pytest.mark.dist
def test_every_stage_of_two_steps(tmp_path: Path):
    assert run_jobs(2, [Job(function=stages, arguments=(tmp_path / "run",))]) == [[True, True]]
    record = read_record(tmp_path / "run")
    assert set(record.captures) == {
        f"{stage}.{step}" for stage in ("local", "reduced", "clipped", "update") for step in (1, 2)
    }
    assert record.header.update is not None
    assert (record.header.update.learning_rate, record.header.update.max_norm) == (0.5, 0.05)
    for step in (1, 2):
        local, reduced, clipped, update = (
            record.captures[f"{stage}.{step}"] for stage in ("local", "reduced", "clipped", "update")
        )
        assert relative_error(local.sketch, reduced.sketch).max() < 1e-6
        assert clipped.norm2.sum() == pytest.approx(0.05**2, rel=1e-5)
        total = np.sqrt(reduced.norm2.sum())
        assert relative_error(clipped.sketch * total / 0.05, reduced.sketch).max() < 1e-5
        assert update.rounding is not None
        off = np.linalg.norm(update.sketch - clipped.sketch, axis=1)
        assert (off <= update.rounding + 1e-6 * np.sqrt(clipped.norm2)).all()
    assert relative_error(record.captures["reduced.2"].sketch, record.captures["reduced.1"].sketch).min() > 1e-4


@pytest.mark.dist
def test_self_assay_without_a_problem(tmp_path: Path):
    cases = ("right", "one-more", "unwatched")
    jobs = [Job(function=without_problem, arguments=(case, tmp_path / case)) for case in cases]
    found = dict(zip(cases, run_jobs(2, jobs), strict=True))
    assert found == {
        "right": ["recorded"] * 2,
        "one-more": ["WrongMoment 4 3"] * 2,
        "unwatched": ["UsageError None None"] * 2,
    }
    record = read_record(tmp_path / "right")
    assert record.header.problem.name == "Checkpointed"
    assert record.header.problem.digest.startswith("sha256:")
    families = {parameter.name: parameter.family for parameter in record.header.parameters}
    assert families == {
        "inner.0.weight": "dense",
        "inner.0.bias": "bias",
        "inner.2.weight": "dense",
        "inner.2.bias": "bias",
    }
    units = record.captures["local.1"].units
    assert units is not None
    assert units.shape == (6, 4, 1024)
    assert relative_error(units.sum(axis=0) / 2, captured(record)).max() < 1e-6
