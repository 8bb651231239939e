"""How many runs a second the service judges, and how long a client waits for a verdict, as JSON lines.

PYTHONPATH=tests python ci/bench/service.py [--postgres] [--replicas 2] [--clients 1 8 32] [--runs 96] [--parameters 64]

Service and clients run on this machine, over `dir:` and SQLite, or with --postgres over a Postgres that is started for it.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx2
import numpy as np

from builders import Toy, make_golden, make_toy
from load import bodies, post_all
from replica import replica, token
from services.postgres import fresh_database, running_postgres


def main() -> None:
    """Prints one line for each number of clients."""
    parser = argparse.ArgumentParser(description="throughput and waiting time of the service")
    parser.add_argument("--postgres", action="store_true")
    parser.add_argument("--replicas", type=int, default=1)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--runs", type=int, default=96)
    parser.add_argument("--parameters", type=int, default=64)
    given = parser.parse_args()
    half = given.parameters // 2
    toy = make_toy(families={"dense": [(24, 16)] * half, "expert": [(40, 36)] * (given.parameters - half)}, units=8)
    with tempfile.TemporaryDirectory(prefix="gradassay-bench-") as folder, ExitStack() as stack:
        database = f"sqlite:///{folder}/service.db"
        if given.postgres:
            database = stack.enter_context(fresh_database(stack.enter_context(running_postgres())))
        urls = [stack.enter_context(_service(Path(folder), database, number)) for number in range(given.replicas)]
        headers = token(database)
        _approve_golden(urls[0], headers, toy, Path(folder))
        for number, clients in enumerate(given.clients):
            files = bodies(toy, given.runs, seed=number * given.runs)
            verdicts, seconds = post_all(urls, headers, files, clients=clients)
            waited = [verdict.seconds for verdict in verdicts]
            line = {
                "database": database.partition(":")[0],
                "replicas": given.replicas,
                "cores": len(os.sched_getaffinity(0)),
                "clients": clients,
                "runs": len(files),
                "parameters": given.parameters,
                "record_bytes": len(files[0]),
                "runs_per_s": round(len(files) / seconds, 2),
                "verdict_p50_s": round(float(np.quantile(waited, 0.5)), 3),
                "verdict_p99_s": round(float(np.quantile(waited, 0.99)), 3),
                "verdicts": sorted({verdict.assay["verdict"] for verdict in verdicts}),
            }
            print(json.dumps(line), flush=True)


@contextmanager
def _service(folder: Path, database: str, number: int) -> Iterator[str]:
    settings = {"GRADASSAY_STORE": f"dir:{folder}/store", "GRADASSAY_DATABASE_URL": database}
    with replica(folder / f"replica-{number}", **settings) as running:
        yield running.url


def _approve_golden(url: str, headers: dict[str, str], toy: Toy, folder: Path) -> None:
    path = folder / "golden.safetensors"
    golden = make_golden(toy)
    golden.write(path)
    base = f"{url}/api/v1/goldens/{golden.name}"
    with httpx2.Client(headers=headers, timeout=120) as client:
        client.post(f"{base}/versions", content=path.read_bytes()).raise_for_status()
        decision = {"version": 1, "expected_version": 0, "why": "benchmark"}
        client.put(f"{base}/channels/approved", json=decision).raise_for_status()


if __name__ == "__main__":
    main()
