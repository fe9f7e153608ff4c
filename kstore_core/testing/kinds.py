"""The kinds of stores that are tested. A kind is a shape with a format.

The store suite and the state machines test all kinds in this module. So new shapes and formats must
be added to this module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

from kstore_core import formats, stores
from kstore_core.formats import ValueFormat
from kstore_core.spec import StoreSpec
from kstore_core.types import AggregationWithHeaders, ValueAndTimestamp, ValueTimestampHeaders

__all__ = [
    "EDGES",
    "KEY_VALUE",
    "KINDS",
    "LAYERED",
    "SESSION",
    "VERSIONED",
    "WINDOW",
    "WINDOW_SIZE_MS",
    "Edge",
    "Kind",
    "Record",
]

WINDOW_SIZE_MS = 10
"""The length in ms of the windows in all window stores."""

NO_TIMESTAMP = -1
"""The time that a record without a time gets by an upgrade, as in Kafka Streams."""


class Record(NamedTuple):
    """A record in a form that is the same for all formats, for comparisons.

    Attributes
    ----------
    data : bytes
    timestamp : int
        The time in ms; -1 if the format has no times.
    headers : tuple of (str, bytes or None)
        The headers; empty if the format has no headers.
    """

    data: bytes
    timestamp: int = NO_TIMESTAMP
    headers: tuple[tuple[str, bytes | None], ...] = ()


@dataclass(frozen=True)
class Kind:
    """A kind of store.

    Attributes
    ----------
    format : ValueFormat
    spec : callable
        A function that takes the name of a store and returns a spec. If the shape has segments, the
        function also takes the retention and the segment interval in ms.
    shape : str
    time_ordered, indexed : bool
        The values of these fields of the spec.
    layers : bool
        True if stores of this kind have a cache and metrics.
    cache_max_bytes : int or None
        The size of the cache in bytes; the size that the state directory sets if None.
    """

    format: ValueFormat
    spec: Callable[..., StoreSpec]
    shape: str
    time_ordered: bool = False
    indexed: bool = False
    layers: bool = False
    cache_max_bytes: int | None = None

    @property
    def family(self) -> str:
        """The value of :attr:`kstore_core.spec.StoreSpec.family` for this kind."""
        return f"time_ordered_{self.shape}" if self.time_ordered else self.shape

    def __str__(self) -> str:
        name = self.format.name.removeprefix("ordered_")
        if self.shape in ("window", "session") and not name.startswith(self.shape):
            name = f"{self.shape}_{name}"
        if self.time_ordered:
            name = f"ordered_{name}" if self.indexed else f"ordered_{name}_unindexed"
        return f"{name}_in_layers" if self.layers else name

    def layered(self, cache_max_bytes: int | None = None) -> Kind:
        """Return the same kind with metrics and a cache.

        A kind that retains duplicates gets no cache. If ``cache_max_bytes`` is None, the state
        directory sets the size of the cache.
        """
        plain = self.spec

        def spec(*arguments: Any, **named: Any) -> StoreSpec:
            made = plain(*arguments, **named).with_metrics(sample_every=2)
            return made if made.retain_duplicates else made.with_cache(cache_max_bytes)

        return replace(self, spec=spec, layers=True, cache_max_bytes=cache_max_bytes)

    def record(
        self, data: bytes, timestamp: int, headers: Iterable[tuple[str, bytes | None]] = ()
    ) -> Record:
        """Return a record that has only the fields which this kind stores."""
        return Record(
            data,
            timestamp if self.format.timestamped else NO_TIMESTAMP,
            tuple(headers) if self.format.headers else (),
        )

    def value(self, record: Record | None) -> Any:
        """Return the value to put into an unversioned store of this kind; None deletes the key."""
        if record is None:
            return None
        if self.shape == "session" and self.format.headers:
            return AggregationWithHeaders(record.data, list(record.headers))
        if self.format.headers:
            return ValueTimestampHeaders(record.data, record.timestamp, list(record.headers))
        if self.format.timestamped:
            return ValueAndTimestamp(record.data, record.timestamp)
        return record.data

    def read(self, value: Any) -> Record | None:
        """Return a value from a store of this kind as a record."""
        if self.shape == "session" and self.format.headers and value is not None:
            return Record(value.aggregation, headers=tuple(value.headers))
        if value is None or not self.format.timestamped:
            return None if value is None else Record(value)
        headers = tuple(value.headers) if self.format.headers else ()
        return Record(value.value, value.timestamp, headers)

    def upgrades(self) -> list[Kind]:
        """Return the newer kinds to which a store of this kind can be upgraded."""
        newer = [
            edge.newer
            for edge in EDGES
            if (edge.older.format, edge.older.family, edge.older.indexed)
            == (self.format, self.family, self.indexed)
        ]
        return [kind.layered(self.cache_max_bytes) for kind in newer] if self.layers else newer


class Edge(NamedTuple):
    """A pair of kinds: a store of the older kind can be upgraded to the newer kind."""

    older: Kind
    newer: Kind

    def __str__(self) -> str:
        return f"{self.older}-{self.newer}"


def _windows(factory: Callable[..., StoreSpec], **order: bool) -> Callable[..., StoreSpec]:
    def spec(
        name: str, retention_ms: int, segment_interval_ms: int, *, duplicates: bool = False
    ) -> StoreSpec:
        return factory(name, retention_ms, WINDOW_SIZE_MS, duplicates, segment_interval_ms, **order)

    return spec


def _ordered_window(
    value_format: ValueFormat, factory: Callable[..., StoreSpec], *, indexed: bool = True
) -> Kind:
    spec = _windows(factory, time_ordered=True, indexed=indexed)
    return Kind(value_format, spec, "window", time_ordered=True, indexed=indexed)


def _ordered_session(
    value_format: ValueFormat, factory: Callable[..., StoreSpec], *, indexed: bool = True
) -> Kind:
    spec = partial(factory, time_ordered=True, indexed=indexed)
    return Kind(value_format, spec, "session", time_ordered=True, indexed=indexed)


KEY_VALUE = (
    Kind(formats.PLAIN, stores.key_value, "key_value"),
    Kind(formats.TIMESTAMPED, stores.timestamped_key_value, "key_value"),
    Kind(formats.TIMESTAMPED_HEADERS, stores.timestamped_key_value_with_headers, "key_value"),
)
VERSIONED = (
    Kind(formats.VERSIONED, stores.versioned_key_value, "versioned"),
    Kind(formats.VERSIONED_HEADERS, stores.versioned_key_value_with_headers, "versioned"),
)
WINDOW = (
    Kind(formats.PLAIN, _windows(stores.window), "window"),
    Kind(formats.TIMESTAMPED, _windows(stores.timestamped_window), "window"),
    Kind(formats.TIMESTAMPED_HEADERS, _windows(stores.timestamped_window_with_headers), "window"),
    _ordered_window(formats.ORDERED_TIMESTAMPED, stores.timestamped_window),
    _ordered_window(formats.ORDERED_TIMESTAMPED_HEADERS, stores.timestamped_window_with_headers),
    _ordered_window(formats.PLAIN, stores.window, indexed=False),
)
SESSION = (
    Kind(formats.PLAIN, stores.session, "session"),
    Kind(formats.SESSION_HEADERS, stores.session_with_headers, "session"),
    _ordered_session(formats.PLAIN, stores.session),
    _ordered_session(formats.ORDERED_SESSION_HEADERS, stores.session_with_headers),
    _ordered_session(formats.PLAIN, stores.session, indexed=False),
)
LAYERED = tuple(
    kind.layered(300) for kind in (KEY_VALUE[2], VERSIONED[1], WINDOW[2], WINDOW[4], SESSION[1])
)
"""The kinds that are tested in layers, with a cache too small for all rows.

The tuple has the kind with the most features of each shape, and a window kind with an index.
"""
KINDS = (*KEY_VALUE, *VERSIONED, *WINDOW, *SESSION)
EDGES = tuple(
    Edge(older, newer)
    for newer in KINDS
    for older in KINDS
    if (older.family, older.indexed) == (newer.family, newer.indexed)
    and older.format.name in newer.format.upgrades_from
)
