"""Short forms for Prometheus' families of samples."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

Family = GaugeMetricFamily | CounterMetricFamily


def gauge(name: str, text: str, *labels: str) -> GaugeMetricFamily:
    """A number that goes up and down."""
    return GaugeMetricFamily(f"rtmprelay_{name}", text, labels=labels)


def counter(name: str, text: str, *labels: str) -> CounterMetricFamily:
    """A number that only goes up; Prometheus adds `_total` to its name."""
    return CounterMetricFamily(f"rtmprelay_{name}", text, labels=labels)


def single(family: Family, value: float) -> Metric:
    """A family with one sample, without labels."""
    family.add_metric([], value)
    return family


def labelled(family: Family, values: Iterable[tuple[tuple[str, ...], float]]) -> Metric:
    """A family with a sample for each set of labels."""
    for labels, value in values:
        family.add_metric(list(labels), value)
    return family
