"""What a golden says of itself: its own truth, assayed like a record."""

from __future__ import annotations

import numpy as np

from gradassay.goldens.assay.compare import assay_record
from gradassay.goldens.assay.result import Assay
from gradassay.goldens.golden import Golden
from gradassay.goldens.header import Framework, RecordHeader, StageStep
from gradassay.goldens.layout import Layout
from gradassay.goldens.record import Capture, Record


def assay_truth(golden: Golden) -> Assay:
    """The assay of the golden's own truth over all of its units, rounded to float32 as records are.

    It must agree, and its power is what the golden can give at best.
    """
    header = golden.header
    coefficients = golden.true_coefficients(len(header.units))
    sketch = np.einsum("u,upk->pk", coefficients, golden.bases[1].sketch).astype(np.float32).astype(np.float64)
    capture = Capture(
        sketch=sketch,
        norm2=np.square(sketch).sum(axis=1),
        absmax=np.abs(sketch).max(axis=1),
        nonfinite=np.zeros(len(header.parameters), dtype=np.int64),
        present=np.ones(len(header.parameters), dtype=np.uint8),
    )
    record = RecordHeader(
        problem=header.problem,
        framework=Framework(name="gradassay"),
        strategy="truth",
        layout=Layout(accum=len(header.units)),
        dtype=header.dtype,
        stages=(StageStep(stage="reduced", step=1),),
        parameters=header.parameters,
    )
    return assay_record(Record(header=record, captures={"reduced.1": capture}), golden, step=1)
