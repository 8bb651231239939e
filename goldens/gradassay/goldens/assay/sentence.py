"""Verdicts and findings as one sentence each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gradassay.goldens.assay.result import Finding, Law, Pattern, Verdict
from gradassay.goldens.layout import Layout

_HOW: Mapping[Pattern, str] = {
    Pattern.GEOMETRIC: "weigh their micro-batches geometrically",
    Pattern.LINEAR: "weigh their micro-batches linearly",
    Pattern.LAST_ONLY: "keep only the last micro-batch",
    Pattern.FIRST_ONLY: "keep only the first micro-batch",
    Pattern.MICRO_SUBSET: "treat some micro-batches unlike the others",
    Pattern.RANK_SUBSET: "treat some ranks unlike the others",
    Pattern.UNREDUCED: "are never reduced: every rank keeps its own group's units only",
    Pattern.PARTLY_UNREDUCED: "are reduced in some micro-batches only",
    Pattern.OWN_AGAIN: "have what their owner computed itself added once more",
    Pattern.REDUCED_AGAIN: "are reduced again from where they were reduced into",
    Pattern.TOKEN_WEIGHTING: "weigh micro-batches by the wrong token counts",
    Pattern.TERM: "carry a term of the loss at the wrong scale",
    Pattern.STALE: "still hold the gradient of the step before",
    Pattern.ZERO: "are zero",
    Pattern.MISSING: "have no gradient at all",
    Pattern.SIGN: "have the wrong sign",
    Pattern.RANK_DISAGREEMENT: "differ from rank to rank",
    Pattern.PERMUTED: "hold the gradient of another parameter",
    Pattern.NON_FINITE: "hold NaN or infinite elements",
    Pattern.UNEXPLAINED: "differ in a way that no known law explains",
}
_PLAIN = {Pattern.ZERO, Pattern.MISSING, Pattern.NON_FINITE}


def finding_sentence(families: Sequence[str], count: int, of: int, law: Law, *, total: int) -> str:
    """Who diverges, how and under which formula: "16 of 16 expert parameters are too large by ep = 2, ...: w[r,m] = ep"."""
    names = " and ".join(filter(None, [", ".join(families[:-1]), families[-1]]))
    who = f"{count} of {of} {names} parameter{'s' if of != 1 else ''}" if count < total else f"all {total} parameters"
    how = _uniform(law) if law.pattern is Pattern.UNIFORM else _HOW[law.pattern]
    if law.pattern is Pattern.GEOMETRIC and "stage" in law.formula:
        how = "are scaled geometrically from pipeline stage to pipeline stage"
    return f"{who} {how}" + (f": {law.formula}" if law.formula and law.pattern not in _PLAIN else "")


def _uniform(law: Law) -> str:
    value = law.value or 0.0
    direction, size = ("large", value) if value > 1 else ("small", 1 / value if value else 0.0)
    factor, name = f"{size:.9g}", law.scale or ""
    if value < 1:
        name = name[2:] if name.startswith("1/") and "*" not in name else ""
    named = factor if name in ("", factor) else f"{name} = {factor}"
    return f"are too {direction} by a factor of {named}, all micro-batches and ranks alike"


def verdict_sentence(
    verdict: Verdict,
    findings: Sequence[Finding],
    layout: Layout,
    *,
    against: str,
    compared: int,
    reason: str,
    alike: str,
    where: str = "",
) -> str:
    """The whole comparison in one sentence.

    against: "the golden", as an example. reason: why there is no verdict. alike: who it looks like, or "". where: the
    stage, unless it is the usual one.
    """
    if verdict is Verdict.AGREE:
        return f"agree{where}: all {compared} parameters match {against} in layout {layout}"
    if verdict is Verdict.DIVERGE:
        first = findings[0].sentence + (f" (same signature as {alike})" if alike else "")
        more = f"; and {len(findings) - 1} more finding{'s' if len(findings) > 2 else ''}" if len(findings) > 1 else ""
        return f"diverge{where}: {first}{more}"
    return f"{verdict}: {reason}"
