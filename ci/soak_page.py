"""The page of a soak."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from soak_plan import CONTROL_EVERY, LAYOUTS
from soak_results import Result

_HEAD = """# False alarms

Honest runs of `{problems}` against goldens that were built once: {layouts} layouts,
each repeated ten times by other strategies and options (DDP with buckets of several sizes, reduced once or after every
micro-batch; FSDP2 and HSDP that free or keep gathered parameters; ZeRO-1; one rank), on other numbers of threads, with
other kernels and switches of torch, and with another release of it. What differed must be said by the record's
environment. One of {every} honest runs was repeated with an injected fault, which must diverge. Written by

    {command}

{done} Records of what is wrong are kept in `build/soak/records`.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What a soak found. whole: runs of the whole plan. torch: the other release, or "". only: further
    arguments of the command. without: why there is no other release.
    """

    results: tuple[Result, ...]
    whole: int
    share: Fraction
    torch: str = ""
    only: tuple[str, ...] = ()
    without: str = ""

    @property
    def honest(self) -> tuple[Result, ...]:
        """Runs without a fault."""
        return tuple(result for result in self.results if not result.fault)

    @property
    def controls(self) -> tuple[Result, ...]:
        """Runs with one."""
        return tuple(result for result in self.results if result.fault)

    @property
    def wrong(self) -> tuple[Result, ...]:
        """Alarms, failed runs, faults not seen, and records that do not say what was different."""
        return tuple(result for result in self.results if result.wrong)

    @property
    def alarms(self) -> tuple[Result, ...]:
        """Honest runs that ran and do not agree."""
        return tuple(result for result in self.honest if result.verdict not in ("", "agree"))

    @property
    def sentence(self) -> str:
        """The outcome in figures."""
        seen = sum(result.verdict == "diverge" for result in self.controls)
        failed = sum(not result.verdict for result in self.results)
        unsaid = sum(bool(result.unsaid) for result in self.results)
        return (
            f"{len(self.alarms)} false alarms in {len(self.honest)} honest runs; {seen} of {len(self.controls)} injected "
            f"faults diverge; {failed} runs failed; {unsaid} records do not say what was different."
        )


def page(summary: Summary) -> str:
    """The page of a soak: outcome, counts, margins, and everything that was wrong."""
    results = summary.results
    share = [f"--share {summary.share}"] if summary.share != 1 else []
    torch = [f"--torch {summary.torch}"] if summary.torch else []
    head = _HEAD.format(
        problems="`, `".join(dict.fromkeys(result.problem for result in results)),
        layouts=len(LAYOUTS),
        every=CONTROL_EVERY,
        command=" ".join(["python ci/soak.py", *share, *torch, *summary.only]),
        done=_done(summary),
    )
    wrong = "\n".join(f"- {result.line}" for result in summary.wrong)
    parts = [
        head,
        f"**{summary.sentence}**",
        _counts("problem, dtype", summary, lambda result: f"{result.problem}, {result.dtype}"),
        _counts("what was different", summary, lambda result: result.setting),
        _counts("strategy", summary, lambda result: result.strategy),
        "## How far honest runs stay below the tolerance\n\nResidual / tolerance of every parameter of every honest run; "
        "above 1 it would be flagged.",
        _margins(summary.honest),
        "## Faults in between\n\n" + _faults(summary.controls),
        f"## What was wrong\n\n{wrong}" if wrong else "",
    ]
    return "\n\n".join(part.strip() for part in parts if part) + "\n"


def _done(summary: Summary) -> str:
    made = len(summary.results)
    seconds = sum(result.seconds for result in summary.results)
    text = f"{made} of the {summary.whole} runs of the whole plan were made, in {seconds:.0f} s of ranks' time."
    return f"{text} {summary.without}." if summary.without else text


def _counts(title: str, summary: Summary, group: Callable[[Result], str]) -> str:
    rows: dict[str, list[Result]] = defaultdict(list)
    for result in summary.honest:
        rows[group(result)].append(result)
    lines = [
        f"| {title} | honest runs | layouts | agree | worst residual / tolerance |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for name, row in rows.items():
        layouts = len({(result.problem, result.layout) for result in row})
        agree = sum(result.verdict == "agree" for result in row)
        worst = max((ratio for result in row for ratios in result.ratios.values() for ratio in ratios), default=0.0)
        lines.append(f"| {name} | {len(row)} | {layouts} | {agree} | {worst:.3f} |")
    return "\n".join(lines) + f"\n\n{_distinct(summary.honest)}" * (title == "what was different")


def _distinct(results: Iterable[Result]) -> str:
    """How many of the runs of one step, in one layout, left gradients of other bits."""
    groups: Mapping[tuple[str, str, str], list[str]] = defaultdict(list)
    for result in results:
        if result.gradient:
            groups[result.problem, result.dtype, result.layout].append(result.gradient)
    several = [group for group in groups.values() if len(group) > 1]
    if not several:
        return ""
    runs, kinds = sum(map(len, several)), sum(len(set(group)) for group in several)
    return (
        f"{runs} runs share problem, dtype and layout with another one; their gradients have {kinds} different "
        f"values to the last bit, in {len(several)} such groups."
    )


def _margins(results: Sequence[Result]) -> str:
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    for result in results:
        for family, ratios in result.ratios.items():
            found[result.dtype, family] += ratios
            found[result.dtype, "all"] += ratios
    lines = ["| dtype | family | parameters | median | 99.9 % | largest |", "| --- | --- | ---: | ---: | ---: | ---: |"]
    for (dtype, family), ratios in sorted(
        found.items(), key=lambda item: (item[0][0], item[0][1] != "all", item[0][1])
    ):
        median, high = np.quantile(ratios, (0.5, 0.999), method="higher")
        lines.append(f"| {dtype} | {family} | {len(ratios)} | {median:.3f} | {high:.3f} | {max(ratios):.3f} |")
    return "\n".join(lines)


def _faults(results: Sequence[Result]) -> str:
    rows: dict[str, list[Result]] = defaultdict(list)
    for result in results:
        rows[result.fault].append(result)
    lines = ["| injected fault | runs | diverge |", "| --- | ---: | ---: |"]
    lines += [
        f"| `{fault}` | {len(row)} | {sum(result.verdict == 'diverge' for result in row)} |"
        for fault, row in sorted(rows.items())
    ]
    return "\n".join(lines)
