"""Assays made by hand: one for each thing that a report must be able to say."""

from __future__ import annotations

import pytest

from gradassay.goldens.assay.result import (
    Assay,
    Finding,
    JointFinding,
    Law,
    OwnerWeights,
    ParameterVerdict,
    Pattern,
    Side,
    Verdict,
)
from gradassay.goldens.layout import Layout

GOLDEN = Side(kind="golden", ref="golden:moe-tiny.float32@v3", title="moe-tiny float32 v3")
EXPERTS = tuple(f"layers.{layer}.experts.{expert}.up.weight" for layer in (0, 1) for expert in range(12))
DENSE = tuple(f"layers.{layer}.attention.{part}.weight" for layer in (0, 1) for part in "qkvo")


def _record(name: str) -> Side:
    return Side(kind="record", ref=f"{name}.safetensors", title=name, environment={"torch": "2.13.0", "device": "cpu"})


def _verdicts(names: tuple[str, ...], family: str, ratio: float, verdict: Verdict) -> tuple[ParameterVerdict, ...]:
    return tuple(
        ParameterVerdict(
            name=name, family=family, verdict=verdict, ratio=ratio, residual=abs(ratio - 1) + 2e-7, tolerance=4.1e-7
        )
        for name in names
    )


def _experts(ep: int) -> Assay:
    law = Law(
        pattern=Pattern.UNIFORM,
        formula="w[r,m] = ep",
        scale="ep",
        value=float(ep),
        ties=("dp/2", "edp") if ep == 2 else ("dp",),
        separated_by="dp8.ep2.accum3" if ep == 2 else "dp8.ep4.accum3",
        confidence=0.999,
    )
    finding = Finding(
        families=("expert",),
        parameters=EXPERTS,
        count=len(EXPERTS),
        of=len(EXPERTS),
        law=law,
        weights=((float(ep),) * 3,) * 4,
        weights_stderr=1.2e-7,
        residual=2.1e-7,
        known_faults=("deepspeed-6545",),
        sentence=f"all 24 expert parameters are {ep} times too large, on every rank and in every micro-batch alike",
    )
    return Assay(
        verdict=Verdict.DIVERGE,
        a=GOLDEN,
        b=_record(f"deepspeed 0.15.3 deepspeed-zero2 dp4.ep{ep}.accum3"),
        stage="reduced",
        layout=Layout(dp=4, ep=ep, accum=3),
        sentence=f"24 of 24 expert parameters diverge: they weigh ep = {ep} times what they should; dense agrees",
        power={"expert": 1.0000052, "dense": 1.0000047},
        findings=(finding,),
        parameters=_verdicts(EXPERTS, "expert", float(ep), Verdict.DIVERGE)
        + _verdicts(DENSE, "dense", 1.0, Verdict.AGREE),
    )


@pytest.fixture
def expert() -> Assay:
    """DeepSpeed #6545: experts are ep times too large; more parameters than the text report prints."""
    return _experts(2)


@pytest.fixture
def joint() -> tuple[tuple[Assay, ...], tuple[JointFinding, ...]]:
    """The same fault in two layouts and one law for both."""
    assays = (_experts(2), _experts(4))
    law = Law(pattern=Pattern.UNIFORM, formula="w[r,m] = ep", scale="ep")
    finding = JointFinding(
        families=("expert",),
        law=law,
        cells=tuple(assay.b.title for assay in assays),
        known_faults=("deepspeed-6545",),
        sentence="w[r,m] = ep explains the expert parameters of both runs",
    )
    return assays, (finding,)


@pytest.fixture
def agreeing() -> Assay:
    """Everything as it should be."""
    return Assay(
        verdict=Verdict.AGREE,
        a=GOLDEN,
        b=_record("ddp dp4.accum3"),
        stage="reduced",
        layout=Layout(dp=4, accum=3),
        sentence="all 32 parameters agree; a factor of 1.0000052 would have been flagged",
        power={"expert": 1.0000052, "dense": 1.0000047},
        parameters=_verdicts(EXPERTS, "expert", 1.0, Verdict.AGREE) + _verdicts(DENSE, "dense", 1.0, Verdict.AGREE),
    )


@pytest.fixture
def geometric() -> Assay:
    """Megatron-LM #3023: the weight changes with the micro step; one unit is unobserved, and one rank's own differ."""
    rows = ((0.25, 1.0, 4.0), (0.25, 1.0, 4.0), (0.25, None, 4.0), (0.25, 1.0, 4.0))
    decayed = Finding(
        families=("dense", "expert"),
        parameters=DENSE + EXPERTS[:4],
        count=12,
        of=32,
        law=Law(pattern=Pattern.GEOMETRIC, formula="w[r,m] = dp**(m-M+2)", scale="dp", value=4.0, ties=("accum+1",)),
        weights=rows,
        weights_stderr=3.4e-7,
        residual=3e-7,
        segments=(1.0,) * 4 + (2.0,) * 11 + (0.5,),
        known_faults=("megatron-lm-3023", "nobody-knows-1"),
    )
    unreduced = Finding(
        families=("expert",),
        parameters=EXPERTS[4:6],
        count=2,
        of=24,
        law=Law(pattern=Pattern.UNREDUCED, formula="w[r,m] = dp on the rank's own units, else 0"),
        weights=None,
        weights_stderr=2e-7,
        residual=0.011,
        owners=(
            OwnerWeights(rank=0, weights=((4.0, 4.0, 4.0), (0.0, 0.0, 0.0), (0.0, 0.0, 0.0), (0.0, 0.0, 0.0))),
            OwnerWeights(rank=1, weights=((0.0, 0.0, 0.0), (-4.0, 4.0, 4.0), (0.0, 0.0, 0.0), (0.0, 0.0, 0.0))),
        ),
        sentence="every rank kept its own units only",
    )
    return Assay(
        verdict=Verdict.DIVERGE,
        a=GOLDEN,
        b=_record("megatron-fsdp dp4.accum3"),
        stage="reduced",
        layout=Layout(dp=4, accum=3),
        sentence="dense and expert gradients decay from micro-batch to micro-batch: w = 1/4, 1, 4",
        power={"expert": 1.0000052, "dense": 1.0000047},
        findings=(decayed, unreduced),
        parameters=_verdicts(DENSE, "dense", 1.75, Verdict.DIVERGE)
        + _verdicts(EXPERTS, "expert", 1.75, Verdict.DIVERGE),
        notes=("the collectives ran behind a stand-in for CUDA: races between streams cannot show",),
    )


@pytest.fixture
def broken() -> Assay:
    """Nothing finite, names that attack every format, and parameters on one side only."""
    names = (
        "layers.0.<script>alert(1)</script>.weight",
        "a|b`c`\x1b[31m\x00\ufffe.weight",
        "![x](javascript:alert(1)) & \"quoted\" 'names'.weight",
    )
    return Assay(
        verdict=Verdict.INCOMPLETE,
        a=GOLDEN,
        b=Side(kind="record", ref="<img src=x onerror=alert(1)>.safetensors", environment={"load": float("inf")}),
        stage="reduced",
        layout=Layout(dp=2),
        sentence="2 parameters are missing and 3 hold values that are not finite </title><script>alert(2)</script>",
        power={"dense": float("inf")},
        findings=(
            Finding(
                families=("dense",),
                parameters=names,
                count=3,
                of=3,
                law=Law(pattern=Pattern.NON_FINITE, formula="<b>nothing</b>", value=float("nan")),
                weights=((float("nan"),), (float("inf"),)),
                weights_stderr=float("nan"),
                residual=float("inf"),
            ),
        ),
        parameters=tuple(
            ParameterVerdict(
                name=name,
                family="dense",
                verdict=Verdict.INCOMPLETE,
                ratio=float("nan"),
                residual=float("inf"),
                tolerance=None,
                note="3 elements are <not> finite",
            )
            for name in names
        ),
        unmatched_a=("lost.weight",),
        unmatched_b=("extra<br>.weight",),
        notes=("a note with a | pipe and <i>markup</i>",),
    )


@pytest.fixture
def incomparable() -> Assay:
    """Another problem: no parameter was judged."""
    return Assay(
        verdict=Verdict.INCOMPARABLE,
        a=GOLDEN,
        b=_record("dense-tiny dp2"),
        stage="reduced",
        layout=Layout(dp=2),
        sentence="the record is of problem dense-tiny, the golden of moe-tiny",
    )
