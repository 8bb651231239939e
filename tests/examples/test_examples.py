"""Every example runs as its docstring says, and what it records is right."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from gradassay.goldens.assay.own import assay_self
from gradassay.goldens.layout import Layout
from gradassay.goldens.record import Record, read_record
from gradassay.harness.zoo import ensure
from truths import captured, relative_error, truth_of

HERE = Path(__file__).parent
CHECKOUT = HERE.parents[1]
EXAMPLES = CHECKOUT / "examples"


def run(
    script: str, out: Path, *arguments: str, ranks: int = 2, environment: Mapping[str, str] | None = None
) -> Record:
    """The record that an example writes on so many ranks; 0 runs it without torchrun."""
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)] if ranks else []
    done = subprocess.run(
        [sys.executable, *launcher, str(EXAMPLES / script), str(out), *arguments],
        env={**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return read_record(out)


def error(record: Record) -> float:
    """How far the record is from the float64 truth of its problem, relatively."""
    truth = truth_of(record.header.problem.name).gradient(record.header.layout)
    return float(relative_error(captured(record), truth).max())


@pytest.mark.dist
def test_own_script_on_ranks_and_in_one_process(tmp_path: Path):
    record = run("own_script.py", tmp_path / "ranks")
    assert record.header.layout == Layout(dp=2, accum=3)
    assert (record.header.framework.name, record.header.framework.version) == ("mine", "1.0")
    assert error(record) < 1e-6
    alone = run("own_script.py", tmp_path / "alone", ranks=0)
    assert alone.header.layout == Layout(accum=3)
    assert error(alone) < 1e-6


@pytest.mark.dist
@pytest.mark.parametrize(
    ("script", "layout"),
    [
        ("with_ddp.py", Layout(dp=2, accum=2)),
        ("with_fsdp2.py", Layout(dp=2, accum=2)),
        ("with_tensor_parallel.py", Layout(dp=2, tp=2, accum=2)),
    ],
)
def test_kinds_of_model_in_torch(tmp_path: Path, script: str, layout: Layout):
    record = run(script, tmp_path / "run", ranks=layout.world)
    assert record.header.layout == layout
    assert error(record) < 1e-6


@pytest.mark.dist
def test_self_assay_needs_nothing_beside_the_record(tmp_path: Path):
    record = run("self_assay.py", tmp_path / "run")
    assert record.header.problem.name == "Sequential"
    assert str(assay_self(record).verdict) == "agree"


@pytest.mark.frameworks
@pytest.mark.slow
@pytest.mark.parametrize("release", ["0.15.3", "0.19.8"])
@pytest.mark.parametrize("stage", ["0", "1", "2", "3"])
def test_deepspeed(tmp_path: Path, release: str, stage: str):
    environment = framework("deepspeed", release)
    record = run("with_deepspeed.py", tmp_path / "run", stage, environment=environment)
    assert record.header.framework.version == release
    assert error(record) < 1e-6
    assert str(assay_self(record).verdict) == "agree"


@pytest.mark.frameworks
@pytest.mark.slow
@pytest.mark.parametrize("release", ["0.34.2", "1.15.0"])
def test_accelerate(tmp_path: Path, release: str):
    record = run("with_accelerate.py", tmp_path / "run", environment=framework("accelerate", release))
    assert record.header.framework.version == release
    assert error(record) < 1e-6


@pytest.mark.frameworks
@pytest.mark.slow
def test_lightning(tmp_path: Path):
    record = run("with_lightning.py", tmp_path / "run", environment=framework("lightning", "2.6.6"))
    assert (record.header.framework.name, record.header.framework.version) == ("lightning", "2.6.6")
    assert record.header.layout == Layout(dp=2, accum=2)
    assert error(record) < 1e-6


@pytest.mark.frameworks
@pytest.mark.slow
@pytest.mark.parametrize(
    ("release", "arguments", "verdict"),
    [
        ("0.2.3", (), "agree"),
        ("0.2.3", ("unfused",), "diverge"),
        ("0.3.0", ("unfused",), "agree"),
        ("0.6.1", (), "agree"),
    ],
)
def test_megatron_fsdp(tmp_path: Path, release: str, arguments: tuple[str, ...], verdict: str):
    environment = framework("megatron-fsdp", release)
    record = run("with_megatron_fsdp.py", tmp_path / "run", *arguments, environment=environment)
    assay = assay_self(record)
    assert str(assay.verdict) == verdict
    assert (error(record) < 1e-6) == (verdict == "agree")
    if verdict == "diverge":
        assert {finding.law.pattern for finding in assay.findings} == {"geometric"}


def framework(name: str, release: str) -> dict[str, str]:
    """Variables with which a plain process finds a release of the zoo."""
    constraints = CHECKOUT / "ci" / "constraints.txt"
    found = ensure(f"{name}=={release}", constraints=constraints if constraints.exists() else None)
    return {**found.variables, "PYTHONPATH": os.pathsep.join(map(str, found.paths)), "LOCAL_SIZE": "2"}
