"""Metrics with Kafka Streams' names: their catalogue, and the registry that exporters read.

Values are numbers; tags name the store and its directory. Keys, values and headers of records are
never part of a metric. docs/metrics.md lists all metrics.
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
_LEAST_S = 30.0  # the shortest window, as in Kafka Streams; a shorter one gives noise
_OPERATIONS = (
    "put", "put-if-absent", "put-all", "get", "all", "range", "prefix-scan", "delete", "fetch",
    "remove", "commit", "restore",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Kind:
    """The meaning of a metric's name.

    Attributes
    ----------
    group : str
        Kafka's group.
    unit : str
        A UCUM unit: ``"ns"``, ``"ms"``, ``"By"``, ``"1/s"``, or ``"1"`` for plain numbers.
    description : str
    counter : bool
        True for a counter, which only grows; False for a gauge.
    """

    group: str
    unit: str
    description: str
    counter: bool = False


class Metric(NamedTuple):
    """One value of a metric at one time.

    Attributes
    ----------
    name : str
        A key of :data:`CATALOGUE`.
    tags : mapping of str to str
        ``thread-id``, ``task-id``, ``state-dir``, and ``<scope>-state-id`` of a store or
        ``record-cache-id`` of a cache.
    value : float
    """

    name: str
    tags: Mapping[str, str]
    value: float


def _catalogue() -> Iterator[tuple[str, Kind]]:
    for name in _OPERATIONS:
        yield f"{name}-rate", Kind(STORES, "1/s", f"calls of {name} in a second")
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
    yield "num-open-iterators", Kind(STORES, "1", "iterators that are open")
    yield (
        "oldest-iterator-open-since-ms",
        Kind(STORES, "ms", "when the oldest open iterator was opened, 0 without one"),
    )
    yield "num-keys", Kind(STORES, "1", "keys, about; of stores in memory")
    yield "restored-records-rate", Kind(STORES, "1/s", "records restored in a second")
    yield "restored-records-total", Kind(STORES, "1", "records restored", counter=True)
    yield "uncommitted-bytes", Kind(TASKS, "By", "keys and values written and not committed")
    yield "dropped-records-rate", Kind(TASKS, "1/s", "records refused in a second, for being late")
    yield "dropped-records-total", Kind(TASKS, "1", "records refused for being late", counter=True)
    yield "cache-size-bytes-total", Kind(TASKS, "By", "what the caches hold")


CATALOGUE: Mapping[str, Kind] = dict(_catalogue())
"""All metrics, by name."""


class Rate:
    """The growth of a count per second, over the readings of the last minute.

    Parameters
    ----------
    clock : callable
        The time in seconds; monotonic.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = RLock()
        self._readings = deque([(clock(), 0)])

    def read(self, count: int) -> float:
        """Return the growth per second; `count` is the present count."""
        with self._lock:
            now = self._clock()
            readings = self._readings
            while len(readings) > 1 and readings[1][0] <= now - _WINDOW_S:
                readings.popleft()
            since, before = readings[0]
            if now - readings[-1][0] >= 1:  # at most one reading a second
                readings.append((now, count))
        return (count - before) / max(now - since, _LEAST_S)


class Window:
    """The mean, the greatest and the least of the figures read in the last minute."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = RLock()
        self._readings: deque[tuple[float, float]] = deque()

    def read(self, figure: float | None) -> tuple[float, float, float] | None:
        """Add a figure, unless it is None. Return the mean, the greatest and the least figure, or
        None if there are no figures."""
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
        """Return the present values of the source's metrics."""


class MetricsRegistry:
    """The sources of metrics: the state directories that are open."""

    def __init__(self) -> None:
        self._sources: list[ref[Source]] = []
        self._lock = RLock()  # reentrant: the garbage collector may close a directory meanwhile

    def add(self, source: Source) -> None:
        """Add a source, by a weak reference."""
        with self._lock:
            self._sources.append(ref(source))

    def remove(self, source: Source) -> None:
        """Remove a source. A second call does nothing."""
        with self._lock:
            self._sources = [known for known in self._sources if known() not in (None, source)]

    def collect(self) -> list[Metric]:
        """Return the present values of all metrics."""
        with self._lock:  # one reader at a time: rates depend on earlier readings
            alive = [source() for source in self._sources]
            return [metric for source in alive if source is not None for metric in source.measure()]

    def value(self, name: str, **tags: str) -> float:
        """The sum of a metric over all sources with these tags; ``_`` in a tag's name means ``-``.

        Raises
        ------
        KeyError
            No source has this metric with these tags.
        """
        wanted = {tag.replace("_", "-"): value for tag, value in tags.items()}.items()
        found = [m.value for m in self.collect() if m.name == name and wanted <= m.tags.items()]
        if not found:
            raise KeyError(name)
        return sum(found)


REGISTRY = MetricsRegistry()
"""The default registry of this process's state directories."""
