"""The export of metrics to OpenTelemetry, as asynchronous instruments of a meter."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from threading import Lock

from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation, get_meter_provider

from kstore_core.exporters.series import Series, series_of
from kstore_core.metrics import CATALOGUE, REGISTRY, MetricsRegistry

__all__ = ["export_to_opentelemetry"]

_FRESH_S = 0.5


def export_to_opentelemetry(
    provider: MeterProvider | None = None, registry: MetricsRegistry = REGISTRY
) -> None:
    """Register every metric with a meter provider, with names such as ``kstore.put-latency-avg``.

    Parameters
    ----------
    provider : MeterProvider, optional
        The meter provider. Default: the global provider.
    registry : MetricsRegistry
        The registry to export.
    """
    meter = (get_meter_provider() if provider is None else provider).get_meter("kstore")
    read = _Reading(registry).read
    for name, kind in CATALOGUE.items():
        make = meter.create_observable_counter if kind.counter else meter.create_observable_gauge
        make(
            f"kstore.{name}",
            callbacks=[_observer(name, read)],
            unit=kind.unit,
            description=kind.description,
        )


def _observer(
    name: str, read: Callable[[], Series]
) -> Callable[[CallbackOptions], Iterable[Observation]]:
    def observe(options: CallbackOptions) -> Iterable[Observation]:
        return [Observation(value, dict(labels)) for labels, value in read().get(name, {}).items()]

    return observe


class _Reading:
    """A cache of the metrics of a registry.

    The provider reads each instrument separately. With the cache, one reading of the registry
    serves all instruments.
    """

    def __init__(self, registry: MetricsRegistry) -> None:
        self._registry = registry
        self._lock = Lock()
        self._taken = -_FRESH_S
        self._series: Series = {}

    def read(self) -> Series:
        with self._lock:
            if time.monotonic() - self._taken >= _FRESH_S:
                self._series = series_of(self._registry.collect())
                self._taken = time.monotonic()
            return self._series
