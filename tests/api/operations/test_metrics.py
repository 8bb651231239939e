"""What is counted, in the format that Prometheus reads."""

from __future__ import annotations

from importlib.metadata import version

from prometheus_client.parser import text_string_to_metric_families

from gradassay.api.operations import metrics


def samples() -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(metrics.exposition().decode())
        for sample in family.samples
    }


def test_what_is_counted_can_be_read():
    before = samples()
    metrics.count_upload("created", 5000)
    metrics.count_upload("invalid-file")
    metrics.count_assay("diverge", 0.2)
    metrics.count_decision("approved")
    after = samples()
    for name, labels in [
        ("gradassay_uploads_total", (("outcome", "created"),)),
        ("gradassay_uploads_total", (("outcome", "invalid-file"),)),
        ("gradassay_upload_bytes_count", ()),
        ("gradassay_assays_total", (("verdict", "diverge"),)),
        ("gradassay_assay_seconds_count", ()),
        ("gradassay_ledger_entries_total", (("action", "approved"),)),
    ]:
        assert after[name, labels] == before.get((name, labels), 0) + 1
    assert after["gradassay_upload_bytes_sum", ()] - before.get(("gradassay_upload_bytes_sum", ()), 0) == 5000
    assert after["gradassay_release_info", (("version", version("gradassay")),)] == 1
    assert ("process_resident_memory_bytes", ()) in after
