"""The layer that counts and times the calls of a store's methods, and provides its metrics.

As in Kafka Streams, the layer wraps the methods of a store and not its table, because the table
cannot distinguish a put from a put-if-absent. docs/decisions/stores/metered-calls.md gives the
reasons.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kstore_core.layers.cached import Cached
from kstore_core.layers.metered import Lateness, OpenIterators, Operation, metered, metered_scan
from kstore_core.metrics import Metric, Rate, Window
from kstore_core.spec import StoreSpec

__all__ = ["StoreMeasures", "scope_of"]

_CALLS: Mapping[str, Mapping[str, str]] = {
    "key_value": {
        "get": "get",
        "get_many": "get",
        "put": "put",
        "put_if_absent": "put-if-absent",
        "put_all": "put-all",
        "put_many": "put-all",
        "put_arrow": "put-all",
        "delete": "delete",
    },
    "versioned": {
        "get": "get",
        "get_many": "get",
        "history": "get",
        "put": "put",
        "put_many": "put-all",
        "put_arrow": "put-all",
        "delete": "delete",
    },
    "window": {
        "put": "put",
        "put_many": "put-all",
        "put_arrow": "put-all",
        "fetch_one": "fetch",
    },
    "session": {
        "put": "put",
        "put_many": "put-all",
        "put_arrow": "put-all",
        "remove": "remove",
        "fetch_session": "fetch",
    },
}
"""The operations under which calls of methods are counted, by shape and name of the method."""

_SCANS: Mapping[str, Mapping[str, str]] = {
    "key_value": {"all": "all", "range": "range", "prefix_scan": "prefix-scan"},
    "versioned": {"all": "all", "range": "range"},
    "window": dict.fromkeys(("fetch", "fetch_range", "fetch_all", "all"), "fetch"),
    "session": dict.fromkeys(
        ("find_sessions", "find_sessions_range", "find_sessions_between", "fetch", "fetch_range"),
        "fetch",
    ),
}
"""The operations of the methods that return a scan, by shape and name of the method.

The measured time of such a call lasts until the scan ends.
"""

_END_TO_END = ("put", "put-if-absent")
_SCOPES = {"window": "-window", "session": "-session"}


def scope_of(engine: str, spec: StoreSpec) -> str:
    """Return the scope of a store's metrics in Kafka Streams, such as ``rocksdb-window``."""
    return ("in-memory" if engine == "memory" else engine) + _SCOPES.get(spec.shape, "")


class StoreMeasures:
    """The measurements of one store.

    Parameters
    ----------
    store : KeyValueStore, VersionedStore, WindowStore or SessionStore
        The store whose methods are counted.
    engine : str
        The name of the store's engine.
    cache : Cached or None
        The cache of the store; None if the store has no cache.
    current_record : CurrentRecord
        The object that returns the input record of a write.
    tags : mapping of str to str
        The tags of the metrics of the store's state directory.

    Attributes
    ----------
    restored : int
        The number of restored records.
    """

    def __init__(
        self,
        store: Any,
        engine: str,
        cache: Cached | None,
        current_record: Any,
        tags: Mapping[str, str],
    ) -> None:
        spec = store.spec
        self._count_keys = store.table.approximate_count if _has_keys(engine, spec) else None
        self._cache = cache
        self._tags = {**tags, f"{scope_of(engine, spec)}-state-id": spec.name}
        self._cache_tags = {**tags, "record-cache-id": spec.name}
        self._operations: dict[str, Operation] = {"commit": Operation(), "restore": Operation()}
        self._iterators = OpenIterators()
        self._lateness = Lateness(current_record)
        self._query_counts_as = "fetch" if spec.shape in _SCOPES else "get"
        self._ratios = Window()
        self._seen = (0, 0)
        self.restored = 0
        for name in {*_CALLS[spec.shape].values(), *_SCANS[spec.shape].values()}:
            self._operations[name] = Operation(spec.metrics)
        self._rates = {name: Rate() for name in (*self._operations, "restored-records")}

    def face(self, store: Any) -> Any:
        """Return a copy of the store that counts the calls of its methods."""
        # The copy has the same class and attributes as the store. A counted method calls the method
        # of the original store. So calls from one method of the store to another are not counted.
        shape, operations = store.spec.shape, self._operations
        kind: Any = type(store)
        face = kind.__new__(kind)
        face.__dict__.update(store.__dict__)
        for method, name in _CALLS[shape].items():
            late = self._lateness if name in _END_TO_END else None
            setattr(face, method, metered(operations[name], getattr(store, method), late))
        for method, name in _SCANS[shape].items():
            scan = metered_scan(operations[name], getattr(store, method), self._iterators)
            setattr(face, method, scan)
        return face

    def queried(self, read: Callable[[], Any], *, scans: bool) -> Any:
        """Call ``read``, which answers a query, and count the call as a get or a fetch."""
        operation = self._operations[self._query_counts_as]
        if scans:
            return metered_scan(operation, read, self._iterators)()
        return metered(operation, read)()

    def committed(self, duration_ns: int) -> None:
        """Count a commit and its duration in ns."""
        self._operations["commit"].record(duration_ns)

    def restored_records(self, count: int, duration_ns: int) -> None:
        """Count a batch of restored records and its duration in ns."""
        self.restored += count
        self._operations["restore"].record(duration_ns)

    def read(self) -> Iterator[Metric]:
        """Yield the current metrics."""
        for name, value in self._figures():
            yield Metric(name, self._tags, value)
        if self._cache is not None and (ratios := self._hit_ratios()) is not None:
            for which, value in zip(("avg", "max", "min"), ratios, strict=True):
                yield Metric(f"hit-ratio-{which}", self._cache_tags, value)

    def _figures(self) -> Iterator[tuple[str, float]]:
        for name, operation in self._operations.items():
            yield f"{name}-total", operation.count
            yield f"{name}-rate", self._rates[name].read(operation.count)
            if (latency := operation.latency.read()) is not None:
                yield f"{name}-latency-avg", latency[0]
                yield f"{name}-latency-max", latency[1]
        yield "restored-records-total", self.restored
        yield "restored-records-rate", self._rates["restored-records"].read(self.restored)
        if (late := self._lateness.latency.read()) is not None:
            for which, value in zip(("avg", "max", "min"), late, strict=True):
                yield f"record-e2e-latency-{which}", value
        iterators = self._iterators
        if (duration := iterators.duration.read()) is not None:
            yield "iterator-duration-avg", duration[0]
            yield "iterator-duration-max", duration[1]
        yield "num-open-iterators", len(iterators)
        yield "oldest-iterator-open-since-ms", iterators.oldest_ms
        if self._count_keys is not None:
            yield "num-keys", self._count_keys()

    def _hit_ratios(self) -> tuple[float, float, float] | None:
        """Return the mean, maximum and minimum hit ratio of the cache; None without lookups."""
        assert self._cache is not None
        hits, misses = self._cache.hits, self._cache.misses
        answered, lookups = hits - self._seen[0], hits + misses - sum(self._seen)
        self._seen = hits, misses
        return self._ratios.read(answered / lookups if lookups else None)


def _has_keys(engine: str, spec: StoreSpec) -> bool:
    return engine == "memory" and spec.shape == "key_value"
