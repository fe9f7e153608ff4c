"""The factories: a description of each kind of store, checked when it is made."""

from __future__ import annotations

from typing import Any

from kstore_core import formats, serdes
from kstore_core.errors import SpecError
from kstore_core.formats import ValueFormat
from kstore_core.serdes import Serde
from kstore_core.spec import StoreSpec

__all__ = [
    "StoreSpec",
    "default_segment_interval",
    "key_value",
    "session",
    "session_with_headers",
    "timestamped_key_value",
    "timestamped_key_value_with_headers",
    "timestamped_window",
    "timestamped_window_with_headers",
    "versioned_key_value",
    "versioned_key_value_with_headers",
    "window",
]


def key_value(
    name: str, *, key: Serde[Any] = serdes.BYTES, value: Serde[Any] = serdes.BYTES
) -> StoreSpec:
    """A key-value store of bare values (Kafka: ``persistentKeyValueStore``)."""
    return StoreSpec(name, "key_value", formats.PLAIN, key, value)


def timestamped_key_value(
    name: str, *, key: Serde[Any] = serdes.BYTES, value: Serde[Any] = serdes.BYTES
) -> StoreSpec:
    """A key-value store of values with their time (KIP-258)."""
    return StoreSpec(name, "key_value", formats.TIMESTAMPED, key, value)


def timestamped_key_value_with_headers(
    name: str, *, key: Serde[Any] = serdes.BYTES, value: Serde[Any] = serdes.BYTES
) -> StoreSpec:
    """A key-value store of values with their time and headers (KIP-1271)."""
    return StoreSpec(name, "key_value", formats.TIMESTAMPED_HEADERS, key, value)


def versioned_key_value(
    name: str,
    history_retention_ms: int,
    segment_interval_ms: int | None = None,
    *,
    key: Serde[Any] = serdes.BYTES,
    value: Serde[Any] = serdes.BYTES,
) -> StoreSpec:
    """A key-value store that keeps old versions for a time (KIP-889).

    Parameters
    ----------
    history_retention_ms : int
        How long a version is kept after stream time has passed its end, and how late a record may
        come; 0 or more.
    segment_interval_ms : int, optional
        Width of a segment, in which versions expire together; 1 or more. Kafka's default for the
        retention where it is left out.

    Raises
    ------
    SpecError
        A bad name, a negative retention, an interval below 1.
    """
    return _versioned(
        formats.VERSIONED, name, history_retention_ms, segment_interval_ms, key, value
    )


def versioned_key_value_with_headers(
    name: str,
    history_retention_ms: int,
    segment_interval_ms: int | None = None,
    *,
    key: Serde[Any] = serdes.BYTES,
    value: Serde[Any] = serdes.BYTES,
) -> StoreSpec:
    """A versioned store whose versions keep their headers.

    Kafka Streams has none, so the layout is kstore's own and provisional; see docs/formats.md.
    Parameters and errors are those of :func:`versioned_key_value`.
    """
    return _versioned(
        formats.VERSIONED_HEADERS, name, history_retention_ms, segment_interval_ms, key, value
    )


def window(
    name: str,
    retention_ms: int,
    window_size_ms: int,
    retain_duplicates: bool = False,
    segment_interval_ms: int | None = None,
    *,
    time_ordered: bool = False,
    indexed: bool | None = None,
    key: Serde[Any] = serdes.BYTES,
    value: Serde[Any] = serdes.BYTES,
) -> StoreSpec:
    """A store of bare values by key and window (Kafka: ``persistentWindowStore``).

    Parameters
    ----------
    retention_ms : int
        How long a window can be read after stream time has passed its start; at least
        ``window_size_ms``.
    window_size_ms : int
        What is added to a window's start to tell its end; 0 or more.
    retain_duplicates : bool
        Whether each put of a key and window adds a value, rather than replaces the last.
    segment_interval_ms : int, optional
        Width of a segment, in which windows expire together; 1 or more. Where it is left out it is
        Kafka's default, half the retention, at least a minute.
    time_ordered : bool
        Whether rows lie by start first, by key second, as Kafka Streams keeps them for results that
        it emits when their window closes: a fetch over all keys then comes by time.
    indexed : bool, optional
        Of a time-ordered store: whether an index finds the windows of a key, which costs a second
        row for each; without one a fetch of a key reads the windows of all. True if left out.

    Raises
    ------
    SpecError
        A bad name, a negative time, an interval below 1, a retention shorter than the window;
        ``indexed`` for a store that is not time-ordered.
    """
    return _window(formats.PLAIN, name, retention_ms, window_size_ms, retain_duplicates,
                   segment_interval_ms, time_ordered, indexed, key, value)  # fmt: skip


def timestamped_window(
    name: str,
    retention_ms: int,
    window_size_ms: int,
    retain_duplicates: bool = False,
    segment_interval_ms: int | None = None,
    *,
    time_ordered: bool = False,
    indexed: bool | None = None,
    key: Serde[Any] = serdes.BYTES,
    value: Serde[Any] = serdes.BYTES,
) -> StoreSpec:
    """A window store of values with their time (KIP-258). As :func:`window` otherwise."""
    return _window(formats.TIMESTAMPED, name, retention_ms, window_size_ms, retain_duplicates,
                   segment_interval_ms, time_ordered, indexed, key, value)  # fmt: skip


def timestamped_window_with_headers(
    name: str,
    retention_ms: int,
    window_size_ms: int,
    retain_duplicates: bool = False,
    segment_interval_ms: int | None = None,
    *,
    time_ordered: bool = False,
    indexed: bool | None = None,
    key: Serde[Any] = serdes.BYTES,
    value: Serde[Any] = serdes.BYTES,
) -> StoreSpec:
    """A window store of values with their time and headers (KIP-1271). As :func:`window`
    otherwise."""
    return _window(formats.TIMESTAMPED_HEADERS, name, retention_ms, window_size_ms,
                   retain_duplicates, segment_interval_ms, time_ordered, indexed, key,
                   value)  # fmt: skip


def session(
    name: str,
    retention_ms: int,
    segment_interval_ms: int | None = None,
    *,
    time_ordered: bool = False,
    indexed: bool | None = None,
    key: Serde[Any] = serdes.BYTES,
    value: Serde[Any] = serdes.BYTES,
) -> StoreSpec:
    """A store of aggregates by key and session (Kafka: ``persistentSessionStore``).

    Parameters
    ----------
    retention_ms : int
        How long a session can be read after stream time has passed its end; 0 or more.
    segment_interval_ms : int, optional
        As for :func:`window`.
    time_ordered : bool
        Whether rows lie by end first, start second and key third; else as for :func:`window`.
    indexed : bool, optional
        As for :func:`window`.

    Raises
    ------
    SpecError
        A bad name, a negative time, an interval below 1; ``indexed`` for a store that is not
        time-ordered.
    """
    return _session(formats.PLAIN, name, retention_ms, segment_interval_ms, time_ordered, indexed,
                    key, value)  # fmt: skip


def session_with_headers(
    name: str,
    retention_ms: int,
    segment_interval_ms: int | None = None,
    *,
    time_ordered: bool = False,
    indexed: bool | None = None,
    key: Serde[Any] = serdes.BYTES,
    value: Serde[Any] = serdes.BYTES,
) -> StoreSpec:
    """A session store of aggregates with their headers (KIP-1271). As :func:`session` otherwise."""
    return _session(formats.SESSION_HEADERS, name, retention_ms, segment_interval_ms, time_ordered,
                    indexed, key, value)  # fmt: skip


def default_segment_interval(history_retention_ms: int) -> int:
    """Kafka's segment interval for a versioned store of this retention, in ms."""
    if history_retention_ms <= 60_000:
        return max(history_retention_ms // 3, 2_000)
    if history_retention_ms <= 300_000:
        return max(history_retention_ms // 5, 20_000)
    if history_retention_ms <= 3_600_000:
        return max(history_retention_ms // 12, 60_000)
    return max(history_retention_ms // 24, 300_000)


def _versioned(
    value_format: ValueFormat,
    name: str,
    retention: int,
    interval: int | None,
    key: Serde[Any],
    value: Serde[Any],
) -> StoreSpec:
    if interval is None and type(retention) is int:
        interval = default_segment_interval(retention)
    return StoreSpec(name, "versioned", value_format, key, value, retention, interval)


def _window(
    value_format: ValueFormat,
    name: str,
    retention: int,
    size: int,
    duplicates: bool,
    interval: int | None,
    time_ordered: bool,
    indexed: bool | None,
    key: Serde[Any],
    value: Serde[Any],
) -> StoreSpec:
    return StoreSpec(
        name, "window", _ordered(value_format, time_ordered), key, value, retention_ms=retention,
        window_size_ms=size, segment_interval_ms=_segment_interval(retention, interval),
        retain_duplicates=duplicates, time_ordered=time_ordered,
        indexed=_indexed(name, time_ordered, indexed),
    )  # fmt: skip


def _session(
    value_format: ValueFormat,
    name: str,
    retention: int,
    interval: int | None,
    time_ordered: bool,
    indexed: bool | None,
    key: Serde[Any],
    value: Serde[Any],
) -> StoreSpec:
    return StoreSpec(
        name, "session", _ordered(value_format, time_ordered), key, value, retention_ms=retention,
        segment_interval_ms=_segment_interval(retention, interval), time_ordered=time_ordered,
        indexed=_indexed(name, time_ordered, indexed),
    )  # fmt: skip


_ORDERED = {
    formats.TIMESTAMPED: formats.ORDERED_TIMESTAMPED,
    formats.TIMESTAMPED_HEADERS: formats.ORDERED_TIMESTAMPED_HEADERS,
    formats.SESSION_HEADERS: formats.ORDERED_SESSION_HEADERS,
}
"""In what a time-ordered store keeps the values of a format, where that is not the same."""


def _ordered(value_format: ValueFormat, time_ordered: bool) -> ValueFormat:
    return _ORDERED.get(value_format, value_format) if time_ordered else value_format


def _indexed(name: str, time_ordered: bool, indexed: bool | None) -> bool:
    """Return True if there is an index, which only a time-ordered store is asked."""
    if indexed is not None and not time_ordered:
        raise SpecError(
            f"indexed is {indexed!r} for the store {name!r}, which is not time-ordered; leave it "
            "out, or pass time_ordered=True"
        )
    return time_ordered if indexed is None else indexed


def _segment_interval(retention: int, interval: int | None) -> int | None:
    """Kafka's interval for window and session stores where none is given."""
    if interval is None and type(retention) is int:
        return max(retention // 2, 60_000)
    return interval
