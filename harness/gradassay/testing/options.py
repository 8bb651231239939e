"""The plugin's options, and the line that says what they come to."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

MISSING = ("fail", "skip")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a session was asked for. store: an address, absolute where it is a folder. report: where the report goes."""

    store: str
    missing: str
    report: Path | None
    update: bool


def add_options(parser: pytest.Parser) -> None:
    """Adds the plugin's options to pytest's."""
    group = parser.getgroup("gradassay", "gradient goldens (gradassay)")
    group.addoption(
        "--golden-store",
        metavar="WHERE",
        help="folder, dir:PATH, sqlite:///PATH, MLflow URI or URL of the gradassay service that holds goldens; "
        "default: GRADASSAY_URL, then GRADASSAY_STORE, then MLflow in .gradassay",
    )
    group.addoption(
        "--golden-missing",
        choices=MISSING,
        default="fail",
        help="what a test does whose golden does not exist (default: fail)",
    )
    group.addoption(
        "--golden-report", metavar="DIR", help="write index.html, report.json, junit.xml and records to DIR"
    )
    group.addoption(
        "--golden-update",
        action="store_true",
        help="build goldens anew, store them as candidate versions, and fail all the same",
    )


def settle(config: pytest.Config) -> Options:
    """The session's options; paths are made absolute here, so that workers and tests in other folders mean the same."""
    option: Any = config.option
    here = config.invocation_params.dir
    if option.golden_report:
        option.golden_report = str(here / Path(option.golden_report).expanduser())
    option.golden_store = _absolute(option.golden_store or _default_store(), here)
    return Options(
        store=option.golden_store,
        missing=option.golden_missing,
        report=Path(option.golden_report) if option.golden_report else None,
        update=option.golden_update,
    )


def header(options: Options) -> str:
    """The line at the head of the session; it costs no import of torch."""
    device, backend = _device()
    return f"gradassay: store {without_secret(options.store)}, channel approved, device {device}, backend {backend}"


def _default_store() -> str:
    """What to open where no option says so."""
    from gradassay.goldens.store.open import default_store

    return os.environ.get("GRADASSAY_URL") or os.environ.get("GRADASSAY_STORE") or default_store()


def _absolute(store: str, here: Path) -> str:
    for scheme in ("dir:", "sqlite:///"):
        if store.startswith(scheme):
            path = store.removeprefix(scheme)
            return f"{scheme}{here / Path(path).expanduser()}" if path else store
    return store if ":" in store else str(here / Path(store).expanduser())


def without_secret(store: str) -> str:
    """The address without the name and password that it may hold."""
    scheme, found, rest = store.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}" if found and "@" in rest else store


def _device() -> tuple[str, str]:
    """Device and backend of the ranks, as a worker chooses them; the driver is asked only where there is one."""
    if Path("/proc/driver/nvidia").exists():
        from gradassay.harness.launch.devices import visible_gpus

        gpus = len(visible_gpus())
        if gpus:
            return f"cuda ({gpus} GPU{'s' if gpus > 1 else ''})", "nccl"
    return f"cpu ({len(os.sched_getaffinity(0))} cores)", "gloo"
