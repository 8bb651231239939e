"""What is counted, for Prometheus. Each process counts for itself; labels are words of ours, never a client's."""

from __future__ import annotations

from importlib.metadata import version

from prometheus_client import CONTENT_TYPE_LATEST as MEDIA_TYPE
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)

__all__ = ["MEDIA_TYPE", "count_assay", "count_decision", "count_request", "count_upload", "exposition"]

REGISTRY = CollectorRegistry(auto_describe=True)
ProcessCollector(registry=REGISTRY)
PlatformCollector(registry=REGISTRY)
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_BYTES = tuple(4.0**power for power in range(6, 16))

_release = Gauge("gradassay_release_info", "The release that runs; always 1.", ["version"], registry=REGISTRY)
_release.labels(version("gradassay")).set(1)
_requests = Counter(
    "gradassay_requests", "Requests answered, by route template.", ["method", "route", "status"], registry=REGISTRY
)
_request_seconds = Histogram(
    "gradassay_request_seconds",
    "Time from a request's first byte to the last of its answer.",
    ["method", "route"],
    buckets=_SECONDS,
    registry=REGISTRY,
)
_uploads = Counter(
    "gradassay_uploads",
    "Records posted: created, known (this content was there), or the code of the error that refused them.",
    ["outcome"],
    registry=REGISTRY,
)
_upload_bytes = Histogram(
    "gradassay_upload_bytes", "Size of the records that were accepted.", buckets=_BYTES, registry=REGISTRY
)
_assays = Counter("gradassay_assays", "Assays computed, by verdict.", ["verdict"], registry=REGISTRY)
_assay_seconds = Histogram(
    "gradassay_assay_seconds", "Time that an assay took to compute.", buckets=_SECONDS, registry=REGISTRY
)
_decisions = Counter(
    "gradassay_ledger_entries", "Entries that the ledger took, by action.", ["action"], registry=REGISTRY
)


def count_request(method: str, route: str, status: int, seconds: float) -> None:
    """Counts one answered request."""
    _requests.labels(method, route, str(status)).inc()
    _request_seconds.labels(method, route).observe(seconds)


def count_upload(outcome: str, size: int | None = None) -> None:
    """Counts one posted record; size: its bytes, where it was accepted."""
    _uploads.labels(outcome).inc()
    if size is not None:
        _upload_bytes.observe(size)


def count_assay(verdict: str, seconds: float) -> None:
    """Counts one assay that was computed, not remembered."""
    _assays.labels(verdict).inc()
    _assay_seconds.observe(seconds)


def count_decision(action: str) -> None:
    """Counts one entry of the ledger."""
    _decisions.labels(action).inc()


def exposition() -> bytes:
    """Everything counted, in Prometheus' text format (MEDIA_TYPE)."""
    return generate_latest(REGISTRY)
