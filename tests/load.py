"""Clients that post runs at the same time and wait for the verdict of each, as CI jobs do."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import httpx2

from builders import Toy, make_record
from gradassay.goldens.layout import Layout

WAIT_S = 20
PATIENCE_S = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What came of one posted run. created: the service had not seen it before; seconds: from posting to the verdict."""

    run: str
    created: bool
    assay: dict[str, Any]
    etag: str
    seconds: float


def bodies(toy: Toy, count: int, *, seed: int = 0) -> list[bytes]:
    """Different record files of the toy, their experts `ep` times too large."""
    layout = Layout(dp=4, ep=2, accum=2)
    return [
        make_record(toy, layout=layout, weights={"expert": 2.0}, seed=seed + number).to_bytes()
        for number in range(count)
    ]


def post_all(
    urls: Sequence[str], headers: dict[str, str], files: Sequence[bytes], *, clients: int
) -> tuple[list[Verdict], float]:
    """The verdict of each file, in their order, and the seconds that all took. Requests go to the services in turn."""
    turns = itertools.cycle(urls)
    began = time.perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        verdicts = list(pool.map(lambda file: _verdict(turns, headers, file), files))
    return verdicts, time.perf_counter() - began


def _verdict(turns: Iterator[str], headers: dict[str, str], body: bytes) -> Verdict:
    began = time.perf_counter()
    with httpx2.Client(headers=headers, timeout=PATIENCE_S) as client:
        posted = client.post(f"{next(turns)}/api/v1/runs", content=body)
        posted.raise_for_status()
        run = posted.json()["id"]
        while True:
            answer = client.get(f"{next(turns)}/api/v1/runs/{run}/assay", params={"wait": WAIT_S})
            answer.raise_for_status()
            if answer.status_code == httpx2.codes.OK:
                break
            assert time.perf_counter() - began < PATIENCE_S, f"no verdict of run {run} in {PATIENCE_S:g} s"
    return Verdict(
        run=run,
        created=posted.status_code == httpx2.codes.CREATED,
        assay=answer.json(),
        etag=answer.headers["etag"],
        seconds=time.perf_counter() - began,
    )
