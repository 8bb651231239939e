"""Every report of the catalogue is run, and the assay says its law; the controls beside it agree."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import public_faults
import pytest
from faulty.table import Report, load_reports

from gradassay.harness.environments import ROOT_SETTING
from gradassay.harness.launch import Pool

REPORTS = load_reports()
CHECKOUT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    with pytest.MonkeyPatch.context() as patch:
        if ROOT_SETTING not in os.environ:
            patch.setenv(ROOT_SETTING, str(CHECKOUT / ".zoo"))
        with Pool(environments=public_faults.surroundings) as pool:
            yield pool


@pytest.fixture(scope="module")
def goldens(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of goldens; each is built by the first report that needs it."""
    return tmp_path_factory.mktemp("goldens")


@pytest.mark.dist
@pytest.mark.frameworks
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "report", [pytest.param(report, id=f"{report.fault}-{number}") for number, report in enumerate(REPORTS)]
)
def test_law_is_found_and_named_and_controls_agree(report: Report, pool: Pool, goldens: Path, tmp_path: Path) -> None:
    results = list(public_faults.run(report.trials(), pool, goldens, tmp_path))
    assert len(results) == len(report.trials())
    assert [f"{result.trial}: {result.complaint}" for result in results if not result.good] == []
    broken = [result.judgement for result in results if not result.trial.control]
    assert all(judgement is not None and judgement.detected and judgement.named is report.named for judgement in broken)
    assert any(result.trial.control for result in results)
