"""What `gradassay golden show` says of a golden."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from gradassay.cli.tables import table
from gradassay.goldens.assay.truth import assay_truth
from gradassay.goldens.report import numbers
from gradassay.goldens.report.golden import golden_facts
from gradassay.goldens.report.printable import printable
from gradassay.goldens.store.approval import version_text

if TYPE_CHECKING:
    from rich.console import RenderableType

    from gradassay.goldens.golden import Golden
    from gradassay.goldens.header import Controls
    from gradassay.goldens.store.approval import Approval

FIGURES = ("parameters", "elements", "noise q50", "q99.9", "samples", "power")


def golden_json(golden: Golden, ref: str, digest: str) -> dict[str, Any]:
    """The golden's facts for `--json`; the parameters by name, without arrays."""
    return {
        "ref": ref,
        "name": golden.name,
        "digest": digest,
        **golden_facts(golden),
        "parameters": [
            {"name": parameter.name, "shape": list(parameter.shape), "family": parameter.family}
            for parameter in golden.header.parameters
        ],
    }


def describe_golden(golden: Golden, ref: str, digest: str, approvals: Sequence[Approval] = ()) -> RenderableType:
    """The golden's facts in words and tables; approvals: the history of its name, where it is in a store."""
    from rich.console import Group
    from rich.padding import Padding
    from rich.text import Text

    header = golden.header
    tokens = [unit.tokens for unit in header.units]
    facts = {
        "ref": ref,
        "digest": digest,
        "problem": f"{header.problem.name} ({header.problem.digest})",
        "objective": header.objective + (f" of {' + '.join(header.terms)}" if header.terms else ""),
        "units": f"{len(tokens)}, of {_range(tokens)}",
        "steps": ", ".join(map(str, sorted(golden.bases))),
        "environment": ", ".join(f"{key} {value}" for key, value in header.environment.items()) or "not said",
        "created": header.created or "not said",
        "faults": _controls(header.controls),
    }
    references = table(
        ("reference", "layout", "record"),
        ((item.strategy, str(item.layout), short_digest(item.record) or numbers.ABSENT) for item in header.references),
    )
    title = Text(printable(golden.name), style="bold")
    said = Padding(table(("", ""), facts.items()), (0, 0, 0, 2))
    tables = [family_table(golden), Padding(references, (0, 0, 0, 2))]
    if approvals:
        history = (
            (
                item.when,
                item.channel,
                version_text(item.previous),
                version_text(item.version or None),
                item.who,
                item.why,
            )
            for item in approvals
        )
        tables.append(Padding(table(("approved", "channel", "from", "to", "by", "because"), history), (0, 0, 0, 2)))
    return Group(title, said, *(part for item in tables for part in (Text(), item)))


def family_table(golden: Golden, *, indent: int = 2) -> RenderableType:
    """Noise floor and power of every family."""
    from rich.padding import Padding

    return Padding(table(("family", *FIGURES), _family_rows(golden), right=FIGURES), (0, 0, 0, indent))


def short_digest(digest: str) -> str:
    """The beginning of a digest, enough for a table; `--json` prints the whole."""
    return digest[: len("sha256:") + 12]


def _range(tokens: Sequence[int]) -> str:
    least, most = min(tokens), max(tokens)
    return f"{least} tokens each" if least == most else f"{least} to {most} tokens"


def _family_rows(golden: Golden) -> Iterator[tuple[str, ...]]:
    """A row a family: how many parameters and elements, its noise floor, and the smallest factor that is flagged."""
    header = golden.header
    power = assay_truth(golden).power
    for family in dict.fromkeys(parameter.family for parameter in header.parameters):
        sizes = [parameter.numel for parameter in header.parameters if parameter.family == family]
        floor = header.noise.get(family)
        measured = (
            (numbers.scientific(floor.q50), numbers.scientific(floor.q999), str(floor.samples))
            if floor
            else (numbers.ABSENT,) * 3
        )
        factor = numbers.power(power[family]) if family in power else numbers.ABSENT
        yield (family, str(len(sizes)), str(sum(sizes)), *measured, factor)


def _controls(controls: Controls | None) -> str:
    if controls is None:
        return "not tried: build the golden again"
    missed = f"; not by its own law: {', '.join(controls.unnamed[:3])}" if controls.unnamed else ""
    return (
        f"{controls.tried} put into references ({controls.kinds} kinds; {', '.join(controls.layouts)}): "
        f"{controls.detected:.1%} detected, {controls.named:.1%} named{missed}"
    )
