"""The catalogue of the metrics, and the registry from which exporters read them.

The metrics have the names of Kafka Streams; docs/metrics.md lists all of them. The value of a
metric is a number, and its tags name the store and the directory of the store. A metric never
contains the key, the value or the headers of a record.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from threading import RLock
from typing import NamedTuple, Protocol
from weakref import ref

__all__ = ["CATALOGUE", "REGISTRY", "Kind", "Metric", "MetricsRegistry", "Rate", "Source", "Window"]

STORES, CACHES, TASKS = (
    "stream-state-metrics",
    "stream-record-cache-metrics",
    "stream-task-metrics",
)

_WINDOW_S = 60.0
_LEAST_S = 30.0  # the least divisor of a rate, as in Kafka Streams; a smaller divisor gives noise
_OPERATIONS = (
    "put", "put-if-absent", "put-all", "get", "all", "range", "prefix-scan", "delete", "fetch",
    "remove", "commit", "restore",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Kind:
    """The description of a metric.

    Attributes
    ----------
    group : str
        The group of the metric in Kafka Streams.
    unit : str
        The unit in UCUM notation: ``"ns"``, ``"ms"``, ``"By"``, ``"1/s"``, or ``"1"`` for numbers
        without a unit.
    description : str
        A short description for people.
    counter : bool
        True for a counter, which never decreases. False for a gauge.
    """

    group: str
    unit: str
    description: str
    counter: bool = False


class Metric(NamedTuple):
    """The value of a metric at the time of a reading.

    Attributes
    ----------
    name : str
        The name of the metric, a key of :data:`CATALOGUE`.
    tags : mapping of str to str
        The tags ``thread-id``, ``task-id`` and ``state-dir``. A metric of a store also has
        ``<scope>-state-id``, and a metric of a cache also has ``record-cache-id``.
    value : float
        The value in the unit of the metric.
    """

    name: str
    tags: Mapping[str, str]
    value: float


def _catalogue() -> Iterator[tuple[str, Kind]]:
    for name in _OPERATIONS:
        yield f"{name}-rate", Kind(STORES, "1/s", f"calls of {name} per second")
        yield f"{name}-total", Kind(STORES, "1", f"calls of {name}", counter=True)
        yield f"{name}-latency-avg", Kind(STORES, "ns", f"mean time of a {name}")
        yield f"{name}-latency-max", Kind(STORES, "ns", f"greatest time of a {name}")
    for figure, word in (("avg", "mean"), ("max", "greatest"), ("min", "least")):
        yield (
            f"record-e2e-latency-{figure}",
            Kind(STORES, "ms", f"{word} time from a record's timestamp to its write"),
        )
        yield (
            f"hit-ratio-{figure}",
            Kind(CACHES, "1", f"{word} share of the lookups that the cache answered"),
        )
    yield "iterator-duration-avg", Kind(STORES, "ns", "mean time that an iterator was open")
    yield "iterator-duration-max", Kind(STORES, "ns", "greatest time that an iterator was open")
    yield "num-open-iterators", Kind(STORES, "1", "number of open iterators")
    yield (
        "oldest-iterator-open-since-ms",
        Kind(STORES, "ms", "time when the oldest open iterator was opened, 0 if none is open"),
    )
    yield "num-keys", Kind(STORES, "1", "approximate number of keys of a store in memory")
    yield "restored-records-rate", Kind(STORES, "1/s", "records restored per second")
    yield "restored-records-total", Kind(STORES, "1", "records restored", counter=True)
    yield "uncommitted-bytes", Kind(TASKS, "By", "size of uncommitted keys and values")
    yield "dropped-records-rate", Kind(TASKS, "1/s", "late records dropped per second")
    yield "dropped-records-total", Kind(TASKS, "1", "late records dropped", counter=True)
    yield "cache-size-bytes-total", Kind(TASKS, "By", "size of the rows in the caches")


CATALOGUE: Mapping[str, Kind] = dict(_catalogue())
"""The descriptions of all metrics, by name."""


class Rate:
    """The growth of a count per second, averaged over the readings of the last minute.

    Parameters
    ----------
    clock : callable
        A function that returns a monotonic time in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = RLock()
        self._readings = deque([(clock(), 0)])

    def read(self, count: int) -> float:
        """Add a reading of the current count, and return the growth of the count per second."""
        with self._lock:
            now = self._clock()
            readings = self._readings
            while len(readings) > 1 and readings[1][0] <= now - _WINDOW_S:
                readings.popleft()
            since, before = readings[0]
            if now - readings[-1][0] >= 1:  # keep at most one reading per second
                readings.append((now, count))
        return (count - before) / max(now - since, _LEAST_S)


class Window:
    """The mean, the maximum and the minimum of the figures that were added in the last minute."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = RLock()
        self._readings: deque[tuple[float, float]] = deque()

    def read(self, figure: float | None) -> tuple[float, float, float] | None:
        """Add a figure, unless it is None. Return the mean, the maximum and the minimum.

        Return None if no figure was added in the last minute.
        """
        with self._lock:
            now = self._clock()
            if figure is not None:
                self._readings.append((now, figure))
            while self._readings and self._readings[0][0] < now - _WINDOW_S:
                self._readings.popleft()
            figures = [figure for _, figure in self._readings]
        if not figures:
            return None
        return sum(figures) / len(figures), max(figures), min(figures)


class Source(Protocol):
    """A source of metrics, such as a state directory."""

    def measure(self) -> Iterable[Metric]:
        """Return the current values of the source's metrics."""


class MetricsRegistry:
    """A registry of the sources of metrics, which are the open state directories."""

    def __init__(self) -> None:
        self._sources: list[ref[Source]] = []
        # Reentrant, because the garbage collector may close a directory during any call, and the
        # close calls `remove`.
        self._lock = RLock()

    def add(self, source: Source) -> None:
        """Add a source. The registry keeps only a weak reference to the source."""
        with self._lock:
            self._sources.append(ref(source))

    def remove(self, source: Source) -> None:
        """Remove a source. A second call does nothing."""
        with self._lock:
            self._sources = [known for known in self._sources if known() not in (None, source)]

    def collect(self) -> list[Metric]:
        """Return the current values of all metrics."""
        with self._lock:  # One reader at a time, because a rate depends on earlier readings.
            alive = [source() for source in self._sources]
            return [metric for source in alive if source is not None for metric in source.measure()]

    def value(self, name: str, **tags: str) -> float:
        """Return the sum of a metric over all sources.

        Parameters
        ----------
        name : str
            The name of the metric.
        **tags : str
            The tags that a value must have to be included. A ``_`` in the name of a tag stands for
            ``-``.

        Raises
        ------
        KeyError
            If no source has this metric with these tags.
        """
        wanted = {tag.replace("_", "-"): value for tag, value in tags.items()}.items()
        found = [m.value for m in self.collect() if m.name == name and wanted <= m.tags.items()]
        if not found:
            raise KeyError(name)
        return sum(found)


REGISTRY = MetricsRegistry()
"""The registry of the state directories that this process has opened."""
