from __future__ import annotations

import pytest

from gradassay.goldens.errors import UsageError
from gradassay.goldens.layout import Layout
from gradassay.goldens.record import read_record
from gradassay.harness.cell import Cell
from gradassay.harness.strategies import STRATEGIES, load
from gradassay.harness.worker import check_cell, run_rank

REFUSED = [
    (Cell(problem="moe-tiny", strategy="dpp", layout=Layout()), "no strategy is called 'dpp'"),
    (Cell(problem="moe-tny", strategy="ddp", layout=Layout()), "no problem is called"),
    (Cell(problem="moe-tiny", strategy="ddp", layout=Layout(), dtype="float8"), "no dtype profile 'float8'"),
    (Cell(problem="moe-tiny", strategy="ddp", layout=Layout(dp=6, accum=5)), "has 24 units; layout dp6.accum5 needs"),
    (Cell(problem="moe-tiny", strategy="ddp", layout=Layout(dp=5, ep=5)), "ep = 5 does not divide the 12 experts"),
    (Cell(problem="dense-tiny", strategy="ddp", layout=Layout(dp=2, ep=2)), "does not divide the 0 experts"),
    (Cell(problem="moe-tiny", strategy="ddp", layout=Layout(dp=2, tp=2)), "ddp does not run tp = 2"),
    (Cell(problem="moe-tiny", strategy="fsdp2", layout=Layout(dp=2, replicate=2)), "fsdp2 does not run replicate = 2"),
    (Cell(problem="moe-tiny", strategy="hsdp", layout=Layout(dp=4)), "hsdp needs replicas of its shards"),
    (Cell(problem="moe-tiny", strategy="hsdp", layout=Layout(dp=4, replicate=2, ep=4)), "does not divide dp/replicate"),
    (Cell(problem="moe-tiny", strategy="single", layout=Layout(dp=2)), "single runs on one rank"),
    (Cell(problem="moe-tiny", strategy="ddp", layout=Layout(), options={"sync": "last"}), "ddp has no option 'sync'"),
    (Cell(problem="moe-tiny", strategy="fsdp2", layout=Layout(), options={"sync": "no"}), "fsdp2: sync = 'no'"),
]


@pytest.mark.parametrize(("cell", "message"), REFUSED)
def test_what_cannot_run_is_refused_before_ranks_start(cell, message):
    with pytest.raises(UsageError, match=message) as raised:
        check_cell(cell)
    assert raised.value.hint


@pytest.mark.parametrize("name", ["single", "ddp", "fsdp2", "zero1"])
def test_what_can_run_is_accepted(name):
    assert name in STRATEGIES
    assert load(name).name == name
    assert check_cell(Cell(problem="moe-tiny", strategy=name, layout=Layout(accum=2))).problem.name == "moe-tiny"


def test_hsdp_tells_which_replicate_fits():
    with pytest.raises(UsageError) as raised:
        check_cell(Cell(problem="moe-tiny", strategy="hsdp", layout=Layout(dp=6)))
    assert raised.value.hint == "set replicate to 2 or 3 or 6"


def test_a_rank_outside_a_launcher_is_refused(monkeypatch, tmp_path):
    for name in ("RANK", "MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UsageError, match="RANK, MASTER_ADDR, MASTER_PORT not set"):
        run_rank(Cell(problem="moe-tiny", strategy="single", layout=Layout()), tmp_path / "record")
    monkeypatch.setenv("WORLD_SIZE", "3")
    with pytest.raises(UsageError, match="layout dp2 has 2 ranks, but WORLD_SIZE is 3"):
        run_rank(Cell(problem="moe-tiny", strategy="ddp", layout=Layout(dp=2)), tmp_path / "record")
    assert not list(tmp_path.iterdir())


@pytest.mark.dist
def test_a_record_says_where_it_comes_from(tmp_path):
    from rank_jobs import Job, record_cell, run_jobs

    cell = Cell(problem="dense-tiny", strategy="fsdp2", layout=Layout(dp=2), options={"sync": "every"}, full=True)
    assert run_jobs(2, [Job(function=record_cell, arguments=(cell, tmp_path / "record.safetensors"))]) == [[None] * 2]
    record = read_record(tmp_path / "record.safetensors")
    environment = record.header.environment
    assert {"torch", "numpy", "python", "device", "backend", "processor", "threads"} <= environment.keys()
    assert (environment["mkldnn"], environment["denormals"]) == (True, "kept")
    assert environment["instructions"]
    assert environment["backend"] == "gloo"
    assert environment["options"] == {"sync": "every"}
    assert record.header.created.endswith("Z")
    assert record.header.framework.name == "torch"
    full = record.captures["reduced.1"].full
    assert full is not None
    for place, parameter in enumerate(record.header.parameters):
        values = full[parameter.name].astype(float)
        assert values.shape == parameter.shape
        assert (values**2).sum() == pytest.approx(record.captures["reduced.1"].norm2[place], rel=1e-6)
