"""Metrics for Prometheus: a collector for the official client."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from kstore_core.exporters.series import series_of
from kstore_core.metrics import CATALOGUE, REGISTRY, MetricsRegistry

__all__ = ["PrometheusCollector"]


class PrometheusCollector(Collector):
    """Gives every metric to Prometheus, as ``kstore_put_latency_avg`` and the like.

    ::

        prometheus_client.REGISTRY.register(PrometheusCollector())

    Parameters
    ----------
    registry : MetricsRegistry
        What is exported.
    """

    def __init__(self, registry: MetricsRegistry = REGISTRY) -> None:
        self._registry = registry

    def describe(self) -> list[GaugeMetricFamily]:
        """Nothing: what there will be depends on the stores that are opened."""
        return []

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        """The figures as they are now."""
        for name, values in series_of(self._registry.collect()).items():
            kind = CATALOGUE[name]
            family = CounterMetricFamily if kind.counter else GaugeMetricFamily
            labels = [label.replace("-", "_") for label, _ in next(iter(values))]
            unit = "" if kind.unit == "1" else f" ({kind.unit})"
            exported = family(
                "kstore_" + name.replace("-", "_"), kind.description + unit, labels=labels
            )
            for series, value in values.items():
                exported.add_metric([label for _, label in series], value)
            yield exported
