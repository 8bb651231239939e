"""Two replicas on one Postgres: every run is judged once, whoever asks where."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import httpx2
import psycopg
import pytest

from builders import Toy, make_golden, make_toy
from load import bodies, post_all
from replica import Replica, replica, token

pytestmark = [pytest.mark.services, pytest.mark.timeout(600)]
CLIENTS = 8
RUNS = 32


@pytest.fixture
def toy() -> Toy:
    return make_toy(families={"dense": [(24, 16)], "expert": [(40, 30), (40, 30)]}, units=8)


@pytest.fixture
def replicas(tmp_path: Path, postgres_url: str) -> Iterator[list[Replica]]:
    settings = {"GRADASSAY_STORE": f"dir:{tmp_path}/store", "GRADASSAY_DATABASE_URL": postgres_url}
    with ExitStack() as stack:
        # Both at once, so that both find an empty database.
        with ThreadPoolExecutor(2) as pool:
            contexts = [replica(tmp_path / name, **settings) for name in ("first", "second")]
            started = list(pool.map(stack.enter_context, contexts))
        yield started


@pytest.fixture
def headers(replicas: list[Replica], postgres_url: str) -> dict[str, str]:
    return token(postgres_url)


def approve_golden(url: str, headers: dict[str, str], toy: Toy, folder: Path) -> None:
    golden = make_golden(toy)
    golden.write(folder / "golden.safetensors")
    base = f"{url}/api/v1/goldens/{golden.name}"
    with httpx2.Client(headers=headers, timeout=60) as client:
        client.post(f"{base}/versions", content=(folder / "golden.safetensors").read_bytes()).raise_for_status()
        decision = {"version": 1, "expected_version": 0, "why": "the first"}
        client.put(f"{base}/channels/approved", json=decision).raise_for_status()


def count(url: str, query: str) -> int:
    with psycopg.connect(url.replace("+psycopg", "")) as connection:
        row = connection.execute(query).fetchone()
    assert row is not None
    return int(row[0])


def test_every_run_is_assayed_once(
    replicas: list[Replica], headers: dict[str, str], toy: Toy, tmp_path: Path, postgres_url: str
):
    urls = [replica.url for replica in replicas]
    approve_golden(urls[0], headers, toy, tmp_path)
    files = bodies(toy, RUNS)
    # Twice each, as a CI job does whose first answer was lost.
    verdicts, _ = post_all(urls, headers, [file for file in files for _ in range(2)], clients=CLIENTS)

    assert len({verdict.run for verdict in verdicts}) == RUNS
    assert sum(verdict.created for verdict in verdicts) == RUNS
    assert {verdict.assay["verdict"] for verdict in verdicts} == {"diverge"}
    assert len({verdict.etag for verdict in verdicts}) == RUNS
    assert count(postgres_url, "SELECT count(*) FROM runs") == RUNS
    assert count(postgres_url, "SELECT count(*) FROM assays") == RUNS
    assert count(postgres_url, "SELECT count(*) FROM claims") == 0
    assert count(postgres_url, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()") == 0
    lines = [line for replica in replicas for line in replica.lines()]
    computed = Counter(line["assay"] for line in lines if line["event"] == "assayed")
    assert len(computed) == RUNS
    assert set(computed.values()) == {1}
    assert [line for line in lines if line["level"] == "error" or line.get("status", 0) >= 500] == []


def test_of_two_who_decide_at_once_one_is_told(
    replicas: list[Replica], headers: dict[str, str], toy: Toy, tmp_path: Path
):
    approve_golden(replicas[0].url, headers, toy, tmp_path)
    golden = make_golden(toy, noise=4e-8)
    golden.write(tmp_path / "next.safetensors")
    base = f"/api/v1/goldens/{golden.name}"
    with httpx2.Client(headers=headers, timeout=60) as client:
        content = (tmp_path / "next.safetensors").read_bytes()
        client.post(f"{replicas[0].url}{base}/versions", content=content).raise_for_status()

        def approve(replica: Replica) -> int:
            decision = {"version": 2, "expected_version": 1, "why": f"asked {replica.url}"}
            return client.put(f"{replica.url}{base}/channels/approved", json=decision).status_code

        with ThreadPoolExecutor(CLIENTS) as pool:
            answers = Counter(pool.map(approve, replicas * (CLIENTS // 2)))
        assert answers == {200: 1, 409: CLIENTS - 1}
        for replica in replicas:
            assert client.get(f"{replica.url}{base}").raise_for_status().json()["channels"] == {"approved": 2}
