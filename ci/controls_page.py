"""The page of the controls on real frameworks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

_HEAD = """# Negative controls on frameworks

Every release of `ci/zoo.toml` ran `moe-tiny` in float32, four ranks of three micro-batches over gloo, by its default strategy:
healthy, and broken on purpose. **healthy** must agree with the golden. **injected** faults are put into the run itself, around
the framework (`gradassay record --framework ... --fault ...`). **altered** faults cannot be injected around that strategy;
there the framework's healthy record is changed by arithmetic, or, where its ranks hold shards and no copies, the fault
does not apply. **own** is a cell that the release gets wrong by itself, whose public report must be named. A fault counts
as detected where the verdict is `diverge`, and as named where law, weights and parameters are those put in.
Written by `make controls` (`python ci/controls.py --only RELEASE` goes on with one).
"""


class Shown(Protocol):
    """A result, as the page shows it."""

    @property
    def key(self) -> str: ...

    @property
    def strategy(self) -> str: ...

    @property
    def layout(self) -> str: ...

    @property
    def kind(self) -> str: ...

    @property
    def fault(self) -> str: ...

    @property
    def verdict(self) -> str: ...

    @property
    def laws(self) -> Sequence[str]: ...

    @property
    def reason(self) -> str: ...

    @property
    def detected(self) -> bool: ...

    @property
    def good(self) -> bool: ...


def page(every: Mapping[str, Sequence[Shown | None]], absent: Sequence[str]) -> str:
    """The page: a row a release, a row a fault, and what is not as it should be.

    every: by release, its controls in the order of the plan, None for those that were not run. absent: not installed.
    """
    done = [result for results in every.values() for result in results if result is not None]
    planned = sum(map(len, every.values()))
    wrong = [result for result in done if not result.good]
    own = [result for result in done if result.kind == "own"]
    tried = [result for result in done if result.verdict != "inapplicable"]
    good, left = len(tried) - len(wrong), planned - len(done)
    parts = [
        _HEAD,
        f"**{good} of {len(tried)} controls are as they should be; {len(done) - len(tried)} do not apply; "
        f"{left} were not run yet.**",
        _releases({release: results for release, results in every.items() if any(results)}),
        "## Faults\n\n" + _faults([result for result in done if result.kind in ("injected", "altered")]),
        "## Faults of the releases themselves\n\n" + _own(own) if own else "",
        _listed("Not run yet", [release for release, results in every.items() if not any(results)]),
        _listed("Not installed", absent),
        _listed("Not as it should be", [f"{result.key}: {result.reason or result.verdict}" for result in wrong]),
    ]
    return "\n\n".join(part.strip() for part in parts if part) + "\n"


def _releases(every: Mapping[str, Sequence[Shown | None]]) -> str:
    lines = [
        "| release | strategy | layout | healthy | injected | altered | own |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for release, results in every.items():
        done = [result for result in results if result is not None]
        healthy = [result for result in done if result.kind != "own"][:1]
        where = f"{healthy[0].strategy} | {healthy[0].layout}" if healthy else "| "
        cells = (_share([one for one in done if one.kind == kind]) for kind in ("injected", "altered", "own"))
        verdict = next((one.verdict or "failed" for one in done if one.kind == "healthy"), "not run")
        lines.append(f"| {release} | {where} | {verdict} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _share(results: Sequence[Shown]) -> str:
    """As in `12 of 12 detected, 12 named`."""
    tried = [result for result in results if result.verdict != "inapplicable"]
    if not tried:
        return "does not apply" if results else "none"
    return f"{sum(one.detected for one in tried)} of {len(tried)} detected, {sum(one.good for one in tried)} named"


def _faults(results: Sequence[Shown]) -> str:
    lines = ["| fault | injected | altered | laws found |", "| --- | --- | --- | --- |"]
    for fault in dict.fromkeys(result.fault for result in results):
        row = [result for result in results if result.fault == fault]
        cells = " | ".join(_share([one for one in row if one.kind == kind]) for kind in ("injected", "altered"))
        laws = dict.fromkeys("; ".join(f"`{law}`" for law in one.laws) for one in row if one.laws)
        lines.append(f"| `{fault}` | {cells} | {' or '.join(laws)} |")
    return "\n".join(lines)


def _own(results: Sequence[Shown]) -> str:
    lines = ["| cell | report | verdict | laws found |", "| --- | --- | --- | --- |"]
    for one in results:
        cell = one.key.split(" | ")[1]
        lines.append(f"| {cell} | {one.fault} | {one.verdict} | {'; '.join(f'`{law}`' for law in one.laws)} |")
    return "\n".join(lines)


def _listed(title: str, items: Iterable[str]) -> str:
    lines = "\n".join(f"- {item}" for item in items)
    return f"## {title}\n\n{lines}" if lines else ""
