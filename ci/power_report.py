"""Measures what goldens and published checks see, and writes docs/power.md.

1. python ci/power_report.py
2. python ci/power_report.py --problem moe-tiny --dtype float32 --page power.md
Exit code 0 where every figure meets its goal and no honest run was flagged by gradassay, else 1.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from matrix_report import Lines

from gradassay.goldens.golden import Golden
from gradassay.harness.build import build_golden
from gradassay.harness.launch import Pool
from gradassay.harness.matrix import golden_matrix
from gradassay.harness.power import RULES, Smallest, measure, run_honest
from gradassay.harness.power.honest import STRATEGIES
from gradassay.harness.power.injected import ERRORS
from gradassay.harness.power.measure import SKETCH
from gradassay.harness.power.table import by_check, by_family, markdown

ROOT = Path(__file__).parent.parent
PROBLEMS = ("dense-tiny", "moe-tiny", "ragged-tiny", "moe-small")
DTYPES = ("float32", "bfloat16")
GOALS: Mapping[str, Mapping[str, float]] = {
    "float32": {ERRORS[0].title: 1e-5, ERRORS[1].title: 1e-5},
    "bfloat16": {ERRORS[0].title: 1e-2, ERRORS[1].title: 2e-3},
}
"""By dtype and kind of error, the largest size that may go unseen in any family."""

_HEAD = """# Detection power

How small an error is still flagged: of the goldens of the package's problems, and of the checks that others publish,
on the same tensors. Written by `make power`{seconds}; `gradassay power GOLDEN` measures one golden.

Honest runs ({strategies}; four ranks of three micro-batches, gloo on CPUs) are taken with their whole gradients. An
error of some size is put into the record and into the gradients alike, and the size is bisected until the smallest
that is flagged is known. A **factor** is 1 + size; the **weight of one unit** is 1 + size for the first of twelve;
the **share** of a tensor's elements, one stretch from its start, is twice too large. Of all tensors tried (four a
family) and all runs the worst counts; `never` is a size that no search found flagged (a factor of 11, a weight of
1001, the whole tensor).

gradassay judges by sketches and by tolerances that let 0.1 % of honest runs fail at most; *whole gradients* is the
same rule without sketches, beside float64. Published checks compare with one rank that runs the same units in the
same dtype. **False alarms** counts honest runs that a check flags so, family by family. Those runs differ from the
reference in the order of additions only, since they call the same kernels; **beside the truth** counts those it flags
beside float64 gradients, which are as far off as a framework whose kernels round otherwise. The sizes of a check with
alarms there are no achievement.

| check | its rule |
| --- | --- |
{rules}
Tolerances are those that these projects' tests and tools use: DeepSpeed's tests of expert gradients and of AutoEP,
`torch.testing`'s defaults in PyTorch's tests of sharded modules, Fast-LLM's model tests, SGLang's and Miles' dump
comparators, Megatron-LM's bound on weight gradients.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes the page; 1 where a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--problem", action="append", choices=PROBLEMS)
    parser.add_argument("--dtype", action="append", choices=DTYPES)
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "power.md")
    given = parser.parse_args(arguments)
    began, parts, missed = time.monotonic(), [], []
    with tempfile.TemporaryDirectory(prefix="gradassay-power-") as folder, Pool() as pool:
        for problem in given.problem or PROBLEMS:
            for dtype in given.dtype or DTYPES:
                golden = _golden(problem, dtype, pool, Path(folder))
                found = measure(run_honest(golden, pool, Path(folder) / "runs", progress=Lines()), progress=Lines())
                own = _missed(golden, found)
                parts.append(_part(golden, found, own))
                missed += own
    rules = "".join(f"| {rule.name} | {rule.rule} |\n" for rule in RULES)
    seconds = f" in {time.monotonic() - began:.0f} s"
    head = _HEAD.format(seconds=seconds, strategies=", ".join(STRATEGIES), rules=rules)
    given.page.write_text(head + "".join(parts), encoding="utf-8")
    print("\n".join(missed) or "every goal is met", file=sys.stderr)
    return 1 if missed else 0


def _golden(problem: str, dtype: str, pool: Pool, folder: Path) -> Golden:
    cells = golden_matrix(problem, dtype).cells
    return build_golden(problem, dtype, cells, pool=pool, folder=folder / "references", progress=Lines())


def _missed(golden: Golden, found: Sequence[Smallest]) -> list[str]:
    goals = GOALS[str(golden.header.dtype)]
    return [
        f"{golden.name}: {one.family}, {one.error}: {one.worst:.3g}, goal {goals[one.error]:g}, {one.alarms} alarms"
        for one in found
        if one.check == SKETCH and (one.alarms or one.worst > goals.get(one.error, one.worst))
    ]


def _part(golden: Golden, found: Sequence[Smallest], missed: Sequence[str]) -> str:
    lines = "".join(f"\nMissed: {line}.\n" for line in missed)
    return (
        f"\n## {golden.name}\n\n{markdown(by_family(found))}\nAll families, and what others see:\n\n"
        f"{markdown(by_check(found))}{lines}"
    )


if __name__ == "__main__":
    sys.exit(main())
