"""What pytest-xdist saves on cells of DDP, FSDP2 and DeepSpeed: medians within one run, sessions in turns.

python ci/bench/xdist.py [--accum 4] [--rounds 3] [--workers auto]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

SUITE = """
import pytest

ALONE = [f"dp1.accum{{accum}}" for accum in range(1, {most} + 1)]
TWO = [f"{{ranks}}.accum{{accum}}" for ranks in ("dp2", "dp2.ep2") for accum in range(1, {most} + 1)]
ALL = [*TWO, *(f"dp4.ep2.accum{{accum}}" for accum in range(1, {most} + 1))]


@pytest.mark.gradassay(problem="moe-tiny", strategy="single", layouts=ALONE)
def test_single():
    pass


@pytest.mark.gradassay(problem="moe-tiny", strategy="ddp", layouts=ALL)
def test_ddp():
    pass


@pytest.mark.gradassay(problem="moe-tiny", strategy="fsdp2", layouts=ALL)
def test_fsdp2():
    pass


@pytest.mark.gradassay(problem="moe-tiny", framework="deepspeed==0.19.8", layouts=TWO)
def test_deepspeed():
    pass
"""
CELLS_A_STEP = 9
PYTEST, GRADASSAY = (Path(sys.executable).with_name(name) for name in ("pytest", "gradassay"))
ZOO = Path(__file__).parents[2] / ".zoo"
# No plugins but these: others that this environment has, and a project of users has not, take seconds to import.
PLUGINS = ("-p", "xdist.plugin", "-p", "gradassay.testing.plugin")
STORE = ("--store", "goldens")
BUILD = (
    ("golden", "build", "moe-tiny", *STORE),
    ("golden", "approve", "moe-tiny.float32", "1", "--reason", "measured", *STORE),
)


def main() -> None:
    """Prints both medians and their ratio."""
    parser = argparse.ArgumentParser(description="a suite of cells, serially and under pytest-xdist")
    parser.add_argument(
        "--accum", type=int, default=4, help="micro-batches up to which there are cells, nine for each; 6 at most"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", default="auto")
    given = parser.parse_args()
    cells = CELLS_A_STEP * given.accum
    seconds: dict[str, list[float]] = {"0": [], given.workers: []}
    with tempfile.TemporaryDirectory(prefix="gradassay-xdist-") as name:
        folder = Path(name)
        (folder / "test_suite.py").write_text(SUITE.format(most=given.accum))
        for command in BUILD:
            _run(folder, GRADASSAY, *command)
        for number in range(given.rounds):
            for workers, spent in seconds.items():
                began = time.perf_counter()
                said = _run(folder, PYTEST, *PLUGINS, "-q", "-n", workers, "--golden-store", "goldens")
                spent.append(time.perf_counter() - began)
                if f"{cells} passed" not in said:
                    raise SystemExit(f"not the suite that is to be measured:\n{said}")
            print(
                f"round {number + 1}: " + ", ".join(f"-n {key} {spent[-1]:.1f} s" for key, spent in seconds.items()),
                flush=True,
            )
    serial, parallel = (median(spent) for spent in seconds.values())
    cores = len(os.sched_getaffinity(0))
    print(
        f"{cells} cells on {cores} cores: {serial:.1f} s serially, {parallel:.1f} s with -n {given.workers}, "
        f"ratio {parallel / serial:.2f} (medians of {given.rounds})"
    )


def _run(folder: Path, program: Path, *arguments: str) -> str:
    # Slots of its own: what else runs on this machine should not be waited for.
    own = {"GRADASSAY_ZOO": str(ZOO)} | os.environ
    own |= {"XDG_RUNTIME_DIR": str(folder), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run([program, *arguments], cwd=folder, env=own, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(
            f"{program.name} {' '.join(arguments)} left with {done.returncode}:\n{done.stdout}{done.stderr}"
        )
    return done.stdout


if __name__ == "__main__":
    main()
