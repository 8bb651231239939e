"""Who is named when several ranks fail."""

from __future__ import annotations

import json
from pathlib import Path

from gradassay.harness.launch.blame import Death, first_failure, late_failure

LOST = "RuntimeError: [../pair.cc:534] Connection closed by peer [127.0.0.1]:1234"


def _raised(folder: Path, rank: int, at_s: float, summary: str) -> Death:
    raised = {"at_s": at_s, "summary": summary, "traceback": f"Traceback of rank {rank}"}
    (folder / f"rank{rank}.status.json").write_text(json.dumps({"raised": raised}))
    return Death(rank=rank, code=1, at_s=at_s + 1)


def _returned(folder: Path, rank: int) -> Death:
    (folder / f"rank{rank}.status.json").write_text('{"raised": null}')
    return Death(rank=rank, code=0, at_s=0)


def test_nobody_failed(tmp_path: Path) -> None:
    assert first_failure(tmp_path, [_returned(tmp_path, 0), _returned(tmp_path, 1)]) is None


def test_the_earlier_exception_is_named(tmp_path: Path) -> None:
    deaths = [_raised(tmp_path, 0, 2.0, "KeyError: 'late'"), _raised(tmp_path, 1, 1.0, "ValueError: early")]
    failure = first_failure(tmp_path, deaths)
    assert failure is not None
    assert (failure.rank, failure.reason, failure.traceback) == (1, "ValueError: early", "Traceback of rank 1")


def test_lost_connections_come_after_their_cause(tmp_path: Path) -> None:
    deaths = [_raised(tmp_path, 0, 1.0, LOST), Death(rank=2, code=-9, at_s=5.0), _raised(tmp_path, 1, 0.5, LOST)]
    failure = first_failure(tmp_path, deaths)
    assert failure is not None
    assert failure.rank == 2
    alone = first_failure(tmp_path, [deaths[0], deaths[2]])
    assert alone is not None
    assert alone.rank == 1


def test_an_abort_is_what_native_code_does_on_a_lost_connection(tmp_path: Path) -> None:
    deaths = [Death(rank=0, code=-6, at_s=0.0), _raised(tmp_path, 1, 1.0, "ValueError: the cause")]
    failure = first_failure(tmp_path, deaths)
    assert failure is not None
    assert failure.rank == 1


def test_a_clean_exit_without_a_result_is_a_failure(tmp_path: Path) -> None:
    failure = first_failure(tmp_path, [_returned(tmp_path, 0), Death(rank=1, code=0, at_s=1.0)])
    assert failure is not None
    assert (failure.rank, failure.reason) == (
        1,
        "ended with exit code 0 before its work was done, without an exception",
    )


def test_the_rank_that_does_not_wait_is_late(tmp_path: Path) -> None:
    (tmp_path / "rank0.stack").write_text('File "torch/distributed/distributed_c10d.py", line 1 in all_reduce')
    (tmp_path / "rank1.stack").write_text('File "model.py", line 7 in forward')
    failure = late_failure(tmp_path, [0, 1], 2.5)
    assert (failure.rank, failure.reason) == (1, "did not finish within 2.5 s")
    assert failure.traceback.index("model.py") < failure.traceback.index("all_reduce")


def test_the_log_keeps_its_last_lines(tmp_path: Path) -> None:
    (tmp_path / "rank0.log").write_text("\n".join(f"line {number}" for number in range(100)))
    failure = first_failure(tmp_path, [Death(rank=0, code=3, at_s=0.0)])
    assert failure is not None
    assert failure.log.splitlines()[0] == "line 60"
    assert failure.log.splitlines()[-1] == "line 99"
