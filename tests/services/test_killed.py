"""`kill -9` at many points of what clients ask: after a restart nothing is lost, doubled or half visible."""

from __future__ import annotations

import hashlib
import itertools
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest

from builders import Toy, make_golden, make_record, make_toy
from gradassay.goldens.atomic import PARTIAL
from gradassay.goldens.layout import Layout
from gradassay.goldens.store.open import open_store
from gradassay.goldens.store.protocol import GoldenVersion
from mortal import Mortal, mortal
from replica import token

pytestmark = pytest.mark.services
WHOLE = 10**9


@dataclass(kw_only=True)
class World:
    """A service's folder over many lives of its process, and what its clients were promised: digests of records and of
    goldens, and what the ledger has to say for good.
    """

    folder: Path
    toy: Toy
    store: str
    numbers: Iterator[int] = field(default_factory=itertools.count)
    runs: set[str] = field(default_factory=set)
    versions: set[str] = field(default_factory=set)

    @property
    def settings(self) -> dict[str, Any]:
        return {"store": self.store, "database_url": f"sqlite:///{self.folder}/service.db"}

    @property
    def golden(self) -> str:
        return f"{self.toy.name}.float32"

    def record(self) -> bytes:
        """A record file that nobody has posted."""
        layout = Layout(dp=4, ep=2, accum=2)
        number = next(self.numbers)
        return make_record(self.toy, layout=layout, weights={"expert": 2.0}, seed=number).to_bytes()

    def golden_file(self) -> bytes:
        """A golden file that nobody has proposed."""
        path = self.folder / "golden.safetensors"
        make_golden(self.toy, noise=3e-8 * (1 + next(self.numbers) / 1000)).write(path)
        return path.read_bytes()


def digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


@dataclass(kw_only=True)
class Client:
    """What a CI job and a reviewer ask. Whatever is asked twice, as after a lost answer, takes effect once."""

    http: httpx2.Client
    world: World

    def post(self, body: bytes) -> dict[str, Any]:
        answer = self._ok(self.http.post("/api/v1/runs", content=body))
        self.world.runs.add(digest(body))
        return answer

    def propose(self, body: bytes) -> int:
        answer = self._ok(self.http.post(f"/api/v1/goldens/{self.world.golden}/versions", content=body))
        self.world.versions.add(digest(body))
        return int(answer["version"])

    def pointed(self) -> int:
        answer = self.http.get(f"/api/v1/goldens/{self.world.golden}")
        return (
            0 if answer.status_code == httpx2.codes.NOT_FOUND else int(self._ok(answer)["channels"].get("approved", 0))
        )

    def approve(self, version: int) -> None:
        pointed = self.pointed()
        if pointed != version:
            document = {"version": version, "expected_version": pointed, "why": f"v{version} is better"}
            self._ok(self.http.put(f"/api/v1/goldens/{self.world.golden}/channels/approved", json=document))

    def undo(self, entry: int) -> None:
        if not any(known["undoes"] == entry for known in self.ledger()):
            self._ok(self.http.post(f"/api/v1/ledger/{entry}/undo", json={"why": "too early"}))

    def accept(self, run: str) -> None:
        if not self.reviews(run):
            law = self.assay(run)["findings"][0]["law"]["formula"]
            expires = (datetime.now(UTC) + timedelta(days=30)).isoformat()
            document = {"law": law, "reason": "known", "expires_at": expires}
            self._ok(self.http.post(f"/api/v1/runs/{run}/reviews", json=document))

    def reviews(self, run: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._ok(self.http.get(f"/api/v1/runs/{run}/reviews"))
        return found

    def assay(self, run: str) -> dict[str, Any]:
        while True:
            answer = self.http.get(f"/api/v1/runs/{run}/assay", params={"wait": 20})
            if answer.status_code == httpx2.codes.OK:
                return self._ok(answer)
            assert answer.status_code == httpx2.codes.ACCEPTED, answer.text

    def all_runs(self) -> list[dict[str, Any]]:
        return self._pages("/api/v1/runs")

    def ledger(self) -> list[dict[str, Any]]:
        return self._pages("/api/v1/ledger")[::-1]

    def all_versions(self) -> list[dict[str, Any]]:
        answer = self.http.get(f"/api/v1/goldens/{self.world.golden}/versions")
        return [] if answer.status_code == httpx2.codes.NOT_FOUND else self._ok(answer)[::-1]

    def file(self, path: str) -> bytes:
        return self.http.get(path).raise_for_status().content

    def _pages(self, path: str) -> list[dict[str, Any]]:
        items, cursor = [], None
        while True:
            page = self._ok(self.http.get(path, params={"limit": 200} | ({"cursor": cursor} if cursor else {})))
            items += page["items"]
            cursor = page["next"]
            if cursor is None:
                return items

    def _ok(self, answer: httpx2.Response) -> Any:
        assert answer.is_success, f"{answer.request.method} {answer.request.url}: {answer.text}"
        return answer.json()


Prepare = Callable[[Client], Any]
Ask = Callable[[Client, Any], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """What is interrupted. prepare: makes what it is about; ask: asks for it, and may ask again."""

    name: str
    prepare: Prepare
    ask: Ask


def _approved(client: Client) -> int:
    """The number of the entry by which a new version was approved."""
    version = client.propose(client.world.golden_file())
    client.approve(version)
    return max(int(entry["number"]) for entry in client.ledger() if entry["action"] == "approved")


def _diverging(client: Client) -> str:
    """A new run that was judged."""
    if not client.pointed():
        client.approve(client.propose(client.world.golden_file()))
    run = str(client.post(client.world.record())["id"])
    client.assay(run)
    return run


def _unjudged(client: Client) -> str:
    """A new run, with a golden to judge it by."""
    if not client.pointed():
        client.approve(client.propose(client.world.golden_file()))
    return str(client.post(client.world.record())["id"])


QUICK = ("post", "approve")
OPERATIONS = [
    Operation(name="post", prepare=lambda client: client.world.record(), ask=Client.post),
    Operation(name="propose", prepare=lambda client: client.world.golden_file(), ask=Client.propose),
    Operation(name="approve", prepare=lambda client: client.propose(client.world.golden_file()), ask=Client.approve),
    Operation(name="undo", prepare=_approved, ask=Client.undo),
    Operation(name="accept", prepare=_diverging, ask=Client.accept),
    Operation(name="judge", prepare=_unjudged, ask=Client.assay),
]


@dataclass(kw_only=True)
class Lives:
    """A world in which the service is killed again and again."""

    world: World
    headers: dict[str, str] = field(default_factory=dict)

    def start(self) -> Any:
        """A new life of the process."""
        return mortal(self.world.folder, self.world.settings)

    def client(self, running: Mortal) -> Client:
        if not self.headers:
            self.headers = token(self.world.settings["database_url"])
        http = httpx2.Client(base_url=running.url, headers=self.headers, timeout=60)
        return Client(http=http, world=self.world)

    def lines(self, operation: Operation) -> int:
        """How many different lines of ours the operation passes."""
        with self.start() as running:
            client = self.client(running)
            about = operation.prepare(client)
            running.arm(WHOLE)
            operation.ask(client, about)
            return running.passed()

    def interrupt(self, operation: Operation, points: Sequence[int]) -> int:
        """How many of the points killed the process before it had answered; after each, everything is checked."""
        unanswered, about = 0, None
        for point in [*points, None]:
            with self.start() as running:
                client = self.client(running)
                if about is not None:
                    check(client)
                    operation.ask(client, about)
                    check(client)
                if point is None:
                    break
                about = operation.prepare(client)
                running.arm(point)
                try:
                    operation.ask(client, about)
                except httpx2.TransportError:
                    unanswered += 1
                else:
                    # The answer was out before the line was reached.
                    running.kill()
                assert running.is_dead()
        return unanswered


def check(client: Client) -> None:
    """Everything that was answered is there, once and whole, and all views of it agree."""
    world = client.world
    runs = client.all_runs()
    by_digest = Counter(run["digest"] for run in runs)
    assert set(by_digest.values()) <= {1}
    assert world.runs <= by_digest.keys()
    for run in runs[:3]:
        assert digest(client.file(f"/api/v1/runs/{run['id']}/record")) == run["digest"]

    versions, ledger = client.all_versions(), client.ledger()
    assert [version["version"] for version in versions] == list(range(1, len(versions) + 1))
    digests = Counter(version["digest"] for version in versions)
    assert set(digests.values()) <= {1}
    assert world.versions <= digests.keys()
    for version in versions[-2:]:
        content = client.file(f"/api/v1/goldens/{world.golden}/versions/{version['version']}/file")
        assert digest(content) == version["digest"]

    proposed = Counter(entry["version"] for entry in ledger if entry["action"] == "proposed")
    assert set(proposed.values()) <= {1}
    approved = Counter(entry["version"] for entry in ledger if entry["action"] == "approved")
    assert set(approved.values()) <= {1}
    undone = Counter(entry["undoes"] for entry in ledger if entry["action"] == "undone")
    assert set(undone.values()) <= {1}
    pointed = _replayed(ledger)
    if versions:
        assert client.pointed() == pointed
    accepted = Counter(entry["run"] for entry in ledger if entry["action"] == "accepted")
    assert set(accepted.values()) <= {1}
    for run in accepted:
        assert len(client.reviews(run)) == 1
    store = open_store(world.store)
    assert world.runs <= {record.digest for record in store.records()}
    _wait_until(lambda: _pointed(store.goldens()) == pointed)
    _wait_until(lambda: not list(world.folder.rglob(f"*{PARTIAL}")))


def _replayed(ledger: Sequence[dict[str, Any]]) -> int:
    """Where the channel points by the ledger alone."""
    standing: list[dict[str, Any]] = []
    for entry in ledger:
        if entry["action"] == "approved":
            assert entry["previous"] == (standing[-1]["version"] if standing else 0)
            standing.append(entry)
        elif entry["action"] == "undone":
            assert standing.pop()["number"] == entry["undoes"]
    return int(standing[-1]["version"]) if standing else 0


def _pointed(versions: Sequence[GoldenVersion]) -> int:
    return next((version.version for version in versions if "approved" in version.channels), 0)


def _wait_until(holds: Callable[[], bool], *, deadline_s: float = 30.0) -> None:
    """Returns once it holds: the store follows the ledger in the background."""
    give_up = time.monotonic() + deadline_s
    while not holds():
        assert time.monotonic() < give_up
        time.sleep(0.02)


MIDST = 0.5
"""The least share of points that lie before the answer: lines that other threads run meanwhile are counted too."""


def spread(total: int, count: int) -> list[int]:
    """`count` of the numbers 1 to total, evenly, both ends among them."""
    return sorted({1 + number * (total - 1) // (count - 1) for number in range(count)})


@pytest.fixture
def lives(tmp_path: Path, request: pytest.FixtureRequest) -> Lives:
    """Over plain files, or over what the test's parameter `store` names."""
    kind = request.param if hasattr(request, "param") else "directory"
    store = f"dir:{tmp_path}/store" if kind == "directory" else f"sqlite:///{tmp_path}/store/mlflow.db"
    toy = make_toy(families={"dense": [(24, 16)], "expert": [(40, 30)]}, units=8)
    return Lives(world=World(folder=tmp_path, toy=toy, store=store))


@pytest.mark.parametrize(
    "operation",
    [pytest.param(one, id=one.name, marks=() if one.name in QUICK else pytest.mark.slow) for one in OPERATIONS],
)
def test_killed_at_any_line(lives: Lives, operation: Operation):
    points = spread(lives.lines(operation), 6)
    assert lives.interrupt(operation, points) >= len(points) * MIDST


@pytest.mark.slow
@pytest.mark.parametrize("lives", ["mlflow"], indirect=True)
@pytest.mark.parametrize("operation", OPERATIONS[:3], ids=lambda operation: operation.name)
def test_killed_at_any_line_over_mlflow(lives: Lives, operation: Operation):
    points = spread(lives.lines(operation), 3)
    assert lives.interrupt(operation, points) >= len(points) * MIDST


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("lives", ["directory", "mlflow"], indirect=True)
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_killed_at_every_third_line(lives: Lives, operation: Operation):
    total = lives.lines(operation)
    points = spread(total, total // 3)
    assert lives.interrupt(operation, points) >= len(points) * MIDST


def test_killed_while_a_file_arrives(lives: Lives):
    body = lives.world.record()
    for size in spread(len(body), 6):
        with lives.start() as running:
            client = lives.client(running)
            assert client.all_runs() == []
            host, port = running.url.removeprefix("http://").split(":")
            with socket.create_connection((host, int(port)), timeout=60) as connection:
                head = [f"POST /api/v1/runs HTTP/1.1\r\nHost: {host}", f"Content-Length: {len(body) + 1}"]
                head += [f"{name}: {value}" for name, value in lives.headers.items()]
                connection.sendall("\r\n".join([*head, "Expect: 100-continue", "", ""]).encode())
                assert connection.recv(1000).startswith(b"HTTP/1.1 100")
                connection.sendall(body[:size])
                running.kill()
    with lives.start() as running:
        client = lives.client(running)
        check(client)
        assert client.all_runs() == []
        client.post(body)
        check(client)
