"""Measures what goldens and published checks see, and writes docs/power.md.

1. python ci/power_report.py                           every golden; goes on where it was ended
2. python ci/power_report.py --problem moe-tiny --dtype float32 --fresh
Each golden's part is kept in build/power, and the page has all that are there; --fresh measures them again.
Exit code 0 where every figure meets its goal and no honest run was flagged by gradassay, else 1.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matrix_report import Lines

from gradassay.goldens.atomic import write_atomically
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
KEPT = ROOT / "build" / "power"
PROBLEMS = ("dense-tiny", "moe-tiny", "ragged-tiny", "moe-small")
DTYPES = ("float32", "bfloat16")
GOALS: Mapping[str, Mapping[str, float]] = {
    "float32": {ERRORS[0].title: 1e-5, ERRORS[1].title: 1e-5},
    "bfloat16": {ERRORS[0].title: 1e-2, ERRORS[1].title: 2e-3},
}
"""By dtype and kind of error, the largest size that may go unseen in any family."""

_HEAD = """# Detection power

How small an error is still flagged: of the goldens of the package's problems, and of the checks that others publish,
on the same tensors. Written by `make power`{seconds}; `gradassay power GOLDEN` measures one golden.{unmeasured}

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
    parser.add_argument("--fresh", action="store_true", help="measure what was measured before, too")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="gradassay-power-") as folder, Pool() as pool:
        for problem in given.problem or PROBLEMS:
            for dtype in given.dtype or DTYPES:
                if given.fresh or not _kept(problem, dtype).exists():
                    _measure(problem, dtype, pool, Path(folder))
    kept = {f"{problem}.{dtype}": _kept(problem, dtype) for problem in PROBLEMS for dtype in DTYPES}
    parts = {name: json.loads(path.read_text(encoding="utf-8")) for name, path in kept.items() if path.exists()}
    given.page.write_text(_page(parts, [name for name in kept if name not in parts]), encoding="utf-8")
    missed = [line for part in parts.values() for line in part["missed"]]
    print("\n".join(missed) or "every goal is met", file=sys.stderr)
    return 1 if missed else 0


def _kept(problem: str, dtype: str) -> Path:
    return KEPT / f"{problem}.{dtype}.json"


def _measure(problem: str, dtype: str, pool: Pool, folder: Path) -> None:
    """Keeps the part of one golden, whole or not at all."""
    began = time.monotonic()
    golden = _golden(problem, dtype, pool, folder)
    found = measure(run_honest(golden, pool, folder / "runs", progress=Lines()), progress=Lines())
    missed = _missed(golden, found)
    part = {"seconds": time.monotonic() - began, "missed": missed, "text": _part(golden, found, missed)}
    write_atomically(_kept(problem, dtype), json.dumps(part).encode())


def _page(parts: Mapping[str, Mapping[str, Any]], unmeasured: Sequence[str]) -> str:
    rules = "".join(f"| {rule.name} | {rule.rule} |\n" for rule in RULES)
    head = _HEAD.format(
        seconds=f" in {sum(part['seconds'] for part in parts.values()):.0f} s",
        strategies=", ".join(STRATEGIES),
        rules=rules,
        unmeasured=f"\nNot measured: {', '.join(unmeasured)}." if unmeasured else "",
    )
    return head + "".join(part["text"] for part in parts.values())


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
