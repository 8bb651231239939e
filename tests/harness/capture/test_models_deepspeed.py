"""A Recorder on DeepSpeed's own mixture of experts: recognised, told from a wrong moment, and judged by itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gradassay.goldens.assay.own import assay_self
from gradassay.goldens.record import Record, read_record
from gradassay.harness.zoo import ensure

HERE = Path(__file__).parent
CONSTRAINTS = HERE.parents[2] / "ci" / "constraints.txt"
pytestmark = [pytest.mark.frameworks, pytest.mark.slow]


def run(release: str, case: str, out: Path) -> str:
    """What the script prints."""
    found = ensure(f"deepspeed=={release}", constraints=CONSTRAINTS if CONSTRAINTS.exists() else None)
    script = [str(HERE / "deepspeed_script.py"), str(out), case]
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", *script],
        env={
            **os.environ,
            **found.variables,
            "PYTHONPATH": os.pathsep.join(map(str, found.paths)),
            "LOCAL_SIZE": "2",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.mark.parametrize("case", ["right", "no-problem"])
@pytest.mark.parametrize(("release", "experts"), [("0.15.3", 2.0), ("0.15.4", 1.0)])
def test_experts_are_judged_by_their_own_micro_batches(tmp_path: Path, release: str, experts: float, case: str):
    run(release, case, tmp_path / "run")
    record: Record = read_record(tmp_path / "run")
    assert sum(parameter.family == "expert" for parameter in record.header.parameters) == 48
    assay = assay_self(record)
    assert str(assay.verdict) == ("agree" if experts == 1 else "diverge")
    assert [(finding.families, finding.law.formula) for finding in assay.findings] == (
        [] if experts == 1 else [(("expert",), "w[r,m] = ep")]
    )


@pytest.mark.parametrize(("case", "moment"), [("early", "accumulating"), ("stepped", "updated")])
def test_wrong_moments_of_an_engine(tmp_path: Path, case: str, moment: str):
    assert run("0.15.4", case, tmp_path / "run").count(f"moment: {moment}") == 2
    assert not (tmp_path / "run").exists()
