"""The share of faults that an assay against a golden detects, and names."""

from __future__ import annotations

from collections.abc import Mapping

from gradassay.goldens.assay.compare import assay_record
from gradassay.goldens.golden import Golden
from gradassay.goldens.header import Controls
from gradassay.goldens.record import Record
from gradassay.harness.controls.alter import altered
from gradassay.harness.controls.trials import trials
from gradassay.harness.faults import judge
from gradassay.harness.problems.protocol import Problem
from gradassay.harness.progress import Progress, Silent


def control_score(
    golden: Golden, records: Mapping[str, Record], problem: Problem, *, progress: Progress | None = None
) -> Controls:
    """The score of a golden over its own reference records; see trials.py for what is tried."""
    planned = list(trials(golden, records, problem))
    undetected, unnamed = [], []
    with (progress or Silent()).stage("faults put into references", len(planned)) as advance:
        for trial in planned:
            assay = assay_record(altered(trial.record, trial.fault, trial.site, golden), golden)
            judgement = judge(trial.fault, assay, golden, trial.site)
            if not judgement.detected:
                undetected.append(str(trial))
            elif not judgement.named:
                unnamed.append(str(trial))
            advance(str(trial), ok=judgement.detected)
    return Controls(
        tried=len(planned),
        kinds=len({trial.kind for trial in planned}),
        layouts=tuple(sorted({str(trial.site.layout) for trial in planned})),
        undetected=tuple(undetected),
        unnamed=tuple(unnamed),
    )
