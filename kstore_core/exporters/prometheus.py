"""The export of metrics to Prometheus, by a collector for the official client."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from kstore_core.exporters.series import series_of
from kstore_core.metrics import CATALOGUE, REGISTRY, MetricsRegistry

__all__ = ["PrometheusCollector"]


class PrometheusCollector(Collector):
    """A collector that exports every metric to Prometheus.

    The metrics have names such as ``kstore_put_latency_avg``. Register the collector with a
    registry of the client:

    ::

        prometheus_client.REGISTRY.register(PrometheusCollector())

    Parameters
    ----------
    registry : MetricsRegistry
        The registry to export.
    """

    def __init__(self, registry: MetricsRegistry = REGISTRY) -> None:
        self._registry = registry

    def describe(self) -> list[GaugeMetricFamily]:
        """Return an empty list, because the metrics depend on the open stores."""
        return []

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        """Yield the metrics with their current values."""
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
