"""A page of metrics as a Prometheus reads it."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from tidemill.metrics import CONTROL_METRICS, DRIVER_METRICS

_LABELS = {metric.name: metric.labels for metric in (*DRIVER_METRICS, *CONTROL_METRICS)}


def scraped(text: str) -> dict[tuple[str, ...], float]:
    """Return each value by metric name and label values, in the order of the table of metrics."""
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    found = {
        (sample.name, *(sample.labels[label] for label in _LABELS[sample.name])): sample.value
        for sample in samples
    }
    # Prometheus refuses a page that says something twice.
    assert len(found) == len(samples)
    return found
