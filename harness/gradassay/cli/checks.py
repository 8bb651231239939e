"""What `gradassay doctor` looks at, one function a line of its output."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from platform import python_version

from gradassay.goldens.errors import GradassayError, Unreachable

PACKAGES = ("gradassay", "numpy", "numba", "safetensors")
FREE_BYTES = 2**30
RANKS_S = 120.0
TWO_RANKS = "gradassay.cli.two_ranks:add_up"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One line: what was found, and what to do about it where it is not ok."""

    name: str
    ok: bool
    found: str
    remedy: str = ""


def run_checks(url: str) -> Iterator[Check]:
    """The checks as they are made; url: the service to ask as well, or empty."""
    yield Check(name="packages", ok=True, found=f"python {python_version()}, {', '.join(map(_version, PACKAGES))}")
    torch = _torch()
    yield torch
    if torch.ok:
        yield _gloo()
    yield _strategies()
    yield _frameworks()
    yield _mlflow()
    yield _store()
    if url:
        yield _service(url)
    yield _disk()


def _version(package: str) -> str:
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:
        return f"{package} (not installed)"


def _torch() -> Check:
    if find_spec("torch") is None:
        return Check(
            name="torch",
            ok=False,
            found="not installed: runs cannot be made here, only compared",
            remedy="pip install 'gradassay[torch]'",
        )
    import torch

    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    devices = f"{gpus} GPUs ({torch.cuda.get_device_name(0)}), backend nccl" if gpus else "no GPU, backend gloo"
    if not torch.distributed.is_available():
        return Check(name="torch", ok=False, found=f"{torch.__version__} without torch.distributed")
    return Check(name="torch", ok=True, found=f"{torch.__version__}, {devices}")


def _gloo() -> Check:
    """Starts two ranks as `gradassay record` does and lets them add something up."""
    from gradassay.goldens.layout import Layout
    from gradassay.harness.cell import Cell
    from gradassay.harness.launch import Pool, Task

    cell = Cell(problem="doctor", strategy="all-reduce", layout=Layout(dp=2))
    # Slots of its own: it says what works, and does not wait for what runs.
    with tempfile.TemporaryDirectory() as folder, Pool(slots=2) as pool:
        task = Task(cell=cell, out=Path(folder) / "sum", function=TWO_RANKS, deadline_s=RANKS_S)
        (outcome,) = pool.run([task])
    if outcome.failure is None:
        return Check(name="ranks", ok=True, found=f"2 ranks over gloo added up in {outcome.seconds:.1f} s")
    return Check(
        name="ranks",
        ok=False,
        found=f"2 ranks over gloo failed: {outcome.failure.reason}",
        remedy="set GLOO_SOCKET_IFNAME to a network interface of this machine; see whether loopback is blocked",
    )


def _strategies() -> Check:
    from gradassay.harness.problems import known_problems
    from gradassay.harness.strategies import STRATEGIES

    found = f"problems {', '.join(known_problems())}; strategies {', '.join(STRATEGIES)}"
    return Check(name="runs", ok=True, found=found)


def _frameworks() -> Check:
    from gradassay.harness.environments import installed, zoo_folder

    zoo = zoo_folder()
    names = sorted(folder.name for folder in zoo.glob("*/") if installed(folder)) if zoo.is_dir() else []
    found = f"{', '.join(names) or 'none beside the main environment'} ({zoo})"
    return Check(name="frameworks", ok=True, found=found)


def _mlflow() -> Check:
    if find_spec("mlflow") is None:
        return Check(
            name="mlflow",
            ok=False,
            found="not installed: only a store in a folder works (dir:PATH)",
            remedy="pip install 'gradassay[mlflow]'",
        )
    return Check(name="mlflow", ok=True, found=version("mlflow"))


def _store() -> Check:
    from gradassay.goldens.store.open import open_store

    try:
        store = open_store()
        goldens = store.goldens()
    except GradassayError as error:
        return Check(name="store", ok=False, found=error.message, remedy=error.hint)
    approved = sum(bool(golden.channels) for golden in goldens)
    return Check(name="store", ok=True, found=f"{store}: {len(goldens)} golden versions, {approved} approved")


def _service(url: str) -> Check:
    from gradassay.client.client import ServiceClient
    from gradassay.client.settings import ClientSettings

    try:
        token = ClientSettings.load().token.get_secret_value()
        with ServiceClient(url, token=token, retry_s=0) as client:
            client.get("/runs", limit=1)
    except Unreachable as error:
        remedy = "start it with gradassay serve, or correct --url"
        return Check(name="service", ok=False, found=f"{url} does not answer ({error.message})", remedy=remedy)
    except GradassayError as error:
        return Check(name="service", ok=False, found=error.message, remedy=error.hint)
    return Check(name="service", ok=True, found=f"{url} answers and knows the token")


def _disk() -> Check:
    places = {Path.cwd(): shutil.disk_usage(Path.cwd()).free}
    temporary = Path(tempfile.gettempdir())
    places[temporary] = shutil.disk_usage(temporary).free
    found = ", ".join(f"{free / 2**30:.1f} GiB free in {place}" for place, free in places.items())
    short = [str(place) for place, free in places.items() if free < FREE_BYTES]
    return Check(name="disk", ok=not short, found=found, remedy=f"make room in {', '.join(short)}" if short else "")
