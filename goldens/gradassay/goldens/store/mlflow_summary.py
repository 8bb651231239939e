"""What of a record or golden is shown in MLflow's own tables."""

from __future__ import annotations

from math import sqrt

from gradassay.goldens.golden import Golden
from gradassay.goldens.record import Record
from gradassay.goldens.store.mlflow_limits import Summary, summarise


def record_summary(record: Record) -> Summary:
    """Norms of the first capture by family, and where the record comes from."""
    header = record.header
    capture = record.captures[str(header.stages[0])]
    squares: dict[str, float] = {}
    for parameter, norm2 in zip(header.parameters, capture.norm2, strict=True):
        squares[parameter.family] = squares.get(parameter.family, 0.0) + float(norm2)
    metrics = {
        "gradient_norm": sqrt(sum(squares.values()))
        if all(square >= 0 for square in squares.values())
        else float("nan"),
        "gradient_absmax": float(capture.absmax.max()),
        "nonfinite_elements": float(capture.nonfinite.sum()),
        "absent_parameters": float((capture.present == 0).sum()),
        "parameters": float(len(header.parameters)),
        **{
            f"gradient_norm.{family}": sqrt(square) if square >= 0 else float("nan")
            for family, square in squares.items()
        },
    }
    tags = {
        "problem": header.problem.name,
        "problem_digest": header.problem.digest,
        "strategy": header.strategy,
        "layout": str(header.layout),
        "dtype": str(header.dtype),
        "framework": header.framework.name,
        "framework_version": header.framework.version,
        "stages": ", ".join(str(stage) for stage in header.stages),
        "commit": header.source.commit,
        "dirty": "true" if header.source.dirty else "",
        "captured": header.created,
    }
    return summarise(metrics, {f"gradassay.{key}": value for key, value in tags.items()})


def golden_summary(golden: Golden) -> Summary:
    """Noise floors by family, and what the golden is of."""
    header = golden.header
    metrics = {
        "units": float(len(header.units)),
        "parameters": float(len(header.parameters)),
        "references": float(len(header.references)),
        **{f"noise_q999.{family}": floor.q999 for family, floor in header.noise.items()},
    }
    tags = {
        "problem": header.problem.name,
        "problem_digest": header.problem.digest,
        "dtype": str(header.dtype),
        "objective": header.objective,
        "captured": header.created,
    }
    return summarise(metrics, {f"gradassay.{key}": value for key, value in tags.items()})
