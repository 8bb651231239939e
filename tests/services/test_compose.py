"""Every service of docker-compose.yml, started for real from packages of this machine, with the commands of that file.

moto stands for SeaweedFS, Debian's Postgres for the image's; names of containers become ports of 127.0.0.1.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import httpx2
import psycopg
import pytest
import yaml

from builders import Toy
from gradassay.goldens.golden import Golden
from gradassay.goldens.layout import Layout
from gradassay.goldens.record import Record
from services.postgres import running_postgres

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
DEADLINE_S = 240.0
pytestmark = [pytest.mark.services, pytest.mark.timeout(900)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """All services. url: of the api; here: rewrites text of the file for this machine; run: runs a command as a service."""

    url: str
    here: Callable[[str], str]
    run: Callable[..., str]
    processes: Mapping[str, subprocess.Popen[bytes]]


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    services, folder = COMPOSE["services"], tmp_path_factory.mktemp("compose")
    assert set(services) == {"postgres", "s3", "bucket", "mlflow", "api"}, "start the new service here too"
    with ExitStack() as stack:
        server = stack.enter_context(running_postgres())
        ports = {name: _free_port() for name in ("s3", "mlflow", "api")}

        def here(text: str) -> str:
            for name, port in {"s3": 8333, "mlflow": 5000, "api": 8321}.items():
                text = re.sub(rf"\b(?:{name}|127\.0\.0\.1|localhost):{port}\b", f"127.0.0.1:{ports[name]}", text)
                text = text.replace(f"--port={port}", f"--port={ports[name]}")
            text = text.replace("@postgres/", f"@{server.rpartition('@')[2]}/").replace(
                "--host=0.0.0.0", "--host=127.0.0.1"
            )
            return _interpolated(text)

        def environment(name: str) -> dict[str, str]:
            kept = {key: value for key, value in os.environ.items() if not key.startswith(("GRADASSAY_", "AWS_"))}
            own = {key: here(value) for key, value in services[name].get("environment", {}).items()}
            return kept | own | {"GRADASSAY_CACHE": str(folder / "cache")}

        def run(name: str, command: list[str]) -> str:
            done = subprocess.run(
                _installed([here(word) for word in command]),
                env=environment(name),
                cwd=folder,
                capture_output=True,
                text=True,
                timeout=DEADLINE_S,
                check=False,
            )
            assert done.returncode == 0, f"{name} {command}:\n{done.stderr[-3000:]}"
            return done.stdout

        def start(name: str, command: list[str]) -> subprocess.Popen[bytes]:
            log = folder / f"{name}.log"
            process = stack.enter_context(
                _started(_installed([here(word) for word in command]), environment(name), folder, log)
            )
            if "healthcheck" in services[name]:
                _wait_until_healthy(name, process, log, lambda: run(name, services[name]["healthcheck"]["test"][1:]))
            return process

        _prepare_postgres(server, services["postgres"])
        with _started(
            [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(ports["s3"])],
            dict(os.environ),
            folder,
            folder / "s3.log",
        ) as s3:
            _wait_until_healthy("s3", s3, folder / "s3.log", lambda: _connect(ports["s3"]))
            run("bucket", services["bucket"]["command"])
            mlflow = start("mlflow", services["mlflow"]["command"])
            api = start("api", _command_of_image())
            url = f"http://127.0.0.1:{ports['api']}"
            yield Deployment(url=url, here=here, run=run, processes={"mlflow": mlflow, "api": api})


@pytest.fixture(scope="module")
def client(deployment: Deployment) -> Iterator[httpx2.Client]:
    command = ["gradassay", "--json", "token", "create", "ci", "--scope", "post", "--scope", "review"]
    secret = json.loads(deployment.run("api", command))["token"]
    with httpx2.Client(base_url=deployment.url, timeout=120, headers={"Authorization": f"Bearer {secret}"}) as client:
        yield client


def test_posted_run_is_judged_and_lies_in_the_bucket(
    deployment: Deployment,
    client: httpx2.Client,
    tmp_path: Path,
    make_toy: Callable[..., Toy],
    make_golden: Callable[..., Golden],
    make_record: Callable[..., Record],
):
    toy = make_toy(families={"dense": [(24, 16)], "expert": [(40, 30), (40, 30)]}, units=8)
    golden = make_golden(toy)
    golden.write(tmp_path / "golden.safetensors")
    body = make_record(toy, layout=Layout(dp=4, ep=2, accum=2), weights={"expert": 2.0}).to_bytes()

    posted = client.post("/api/v1/runs", content=body)
    assert posted.status_code == 201, posted.text
    nothing = client.get(f"/api/v1/runs/{posted.json()['id']}/assay")
    assert (nothing.status_code, nothing.json()["code"]) == (404, "no-golden")

    proposed = client.post(
        f"/api/v1/goldens/{golden.name}/versions", content=(tmp_path / "golden.safetensors").read_bytes()
    )
    assert proposed.status_code == 201, proposed.text
    decided = client.put(
        f"/api/v1/goldens/{golden.name}/channels/approved",
        json={"version": 1, "expected_version": 0, "why": "the first reference"},
    )
    assert decided.status_code == 200, decided.text
    assay = client.get(f"/api/v1/runs/{posted.json()['id']}/assay", params={"wait": 30})
    assert assay.status_code == 200, assay.text
    assert assay.json()["verdict"] == "diverge"
    assert assay.json()["findings"][0]["law"]["scale"] == "ep"

    kept = _bucket(deployment)
    assert body in kept.values()
    assert sum(content == (tmp_path / "golden.safetensors").read_bytes() for content in kept.values()) >= 2
    listed = json.loads(deployment.run("api", ["gradassay", "--json", "golden", "list"]))
    assert golden.name in json.dumps(listed)


def test_api_stops_as_it_is_asked_to(deployment: Deployment, client: httpx2.Client):
    assert client.get("/readyz").json() == {"database": "ok", "store": "ok"}
    api = deployment.processes["api"]
    api.send_signal(signal.SIGTERM)
    assert api.wait(timeout=60) == 0


def _interpolated(text: str) -> str:
    """The text as compose reads it where no variable is set."""
    return re.sub(r"\$\{\w+:\+[^}]*\}\}?", "", re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text))


def _command_of_image() -> list[str]:
    commands = [line for line in (ROOT / "Dockerfile").read_text().splitlines() if line.startswith("CMD ")]
    command: list[str] = json.loads(commands[-1].removeprefix("CMD "))
    return command


def _installed(command: list[str]) -> list[str]:
    """The command with programs of this environment."""
    program = sys.executable if command[0] == "python" else str(Path(sys.executable).parent / command[0])
    return [program, *command[1:]]


def _prepare_postgres(server: str, service: dict[str, Any]) -> None:
    """What the image does when its volume is empty: the database of the environment, then the scripts."""
    assert f"//{service['environment']['POSTGRES_USER']}@" in server
    databases = next(config["source"] for config in service["configs"] if config["target"].endswith(".sql"))
    with psycopg.connect(f"{server}/postgres", autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {service['environment']['POSTGRES_DB']}")
        connection.execute(COMPOSE["configs"][databases]["content"])


@contextmanager
def _started(
    command: list[str], environment: dict[str, str], folder: Path, log: Path
) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, env=environment, cwd=folder, stdout=output, stderr=output, start_new_session=True
        )
    try:
        yield process
    finally:
        try:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(timeout=30)
        except ProcessLookupError:
            process.wait()
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _wait_until_healthy(name: str, process: subprocess.Popen[bytes], log: Path, check: Callable[[], object]) -> None:
    give_up = time.monotonic() + DEADLINE_S
    while True:
        try:
            check()
            return
        except (AssertionError, OSError):
            try:
                process.wait(timeout=0.5)
            except subprocess.TimeoutExpired:
                if time.monotonic() < give_up:
                    continue
            raise AssertionError(f"{name} is not healthy:\n{log.read_text(errors='replace')[-3000:]}") from None


def _connect(port: int) -> None:
    socket.create_connection(("127.0.0.1", port), timeout=5).close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _bucket(deployment: Deployment) -> dict[str, bytes]:
    """Every object below the folder that the MLflow server keeps artifacts in, by its key."""
    settings = {key: deployment.here(value) for key, value in COMPOSE["services"]["bucket"]["environment"].items()}
    client = boto3.client(
        "s3",
        endpoint_url=settings["MLFLOW_S3_ENDPOINT_URL"],
        aws_access_key_id=settings["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=settings["AWS_SECRET_ACCESS_KEY"],
        region_name=settings["AWS_DEFAULT_REGION"],
    )
    pages = client.get_paginator("list_objects_v2").paginate(Bucket="gradassay", Prefix="mlflow/")
    keys = [entry["Key"] for page in pages for entry in page.get("Contents", [])]
    return {key: client.get_object(Bucket="gradassay", Key=key)["Body"].read() for key in keys}
