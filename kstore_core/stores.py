"""Functions that make the specs of stores, and check the arguments."""

from __future__ import annotations

from typing import Any

from kstore_core import formats, serdes
from kstore_core.errors import SpecError
from kstore_core.formats import ValueFormat
from kstore_core.serdes import Serde
from kstore_core.spec import Shape, StoreSpec

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
    """Return the spec of a plain key-value store (Kafka: ``persistentKeyValueStore``).

    The values of the store have neither timestamps nor headers.
    """
    return StoreSpec(name, "key_value", formats.PLAIN, key, value)


def timestamped_key_value(
    name: str, *, key: Serde[Any] = serdes.BYTES, value: Serde[Any] = serdes.BYTES
) -> StoreSpec:
    """Return the spec of a key-value store whose values have timestamps (KIP-258)."""
    return StoreSpec(name, "key_value", formats.TIMESTAMPED, key, value)


def timestamped_key_value_with_headers(
    name: str, *, key: Serde[Any] = serdes.BYTES, value: Serde[Any] = serdes.BYTES
) -> StoreSpec:
    """Return the spec of a key-value store whose values have timestamps and headers (KIP-1271)."""
    return StoreSpec(name, "key_value", formats.TIMESTAMPED_HEADERS, key, value)


def versioned_key_value(
    name: str,
    history_retention_ms: int,
    segment_interval_ms: int | None = None,
    *,
    key: Serde[Any] = serdes.BYTES,
    value: Serde[Any] = serdes.BYTES,
) -> StoreSpec:
    """Return the spec of a key-value store with a history of versions (KIP-889).

    Parameters
    ----------
    history_retention_ms : int
        The retention (ms), 0 or more. A version can be read until stream time reaches the end of
        its validity plus the retention. A record is too late if its time is less than stream time
        minus the retention.
    segment_interval_ms : int, optional
        The width of a segment (ms), 1 or more. The versions of a segment expire together. If
        omitted, the width is Kafka Streams' default; see :func:`default_segment_interval`.

    Raises
    ------
    SpecError
        If the name is invalid, the retention is negative, or the interval is less than 1.
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
    """Return the spec of a versioned store whose versions have headers.

    Kafka Streams has no such store. The format is defined by kstore and may change; see
    docs/formats.md. The parameters and errors are those of :func:`versioned_key_value`.
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
    """Return the spec of a plain window store (Kafka: ``persistentWindowStore``).

    The values of the store have neither timestamps nor headers.

    Parameters
    ----------
    retention_ms : int
        The retention (ms), at least ``window_size_ms``. A window can be read while its start is
        greater than stream time minus the retention. In a time-ordered store, a start that equals
        this difference can be read, too.
    window_size_ms : int
        The size of a window (ms), 0 or more.
    retain_duplicates : bool
        If True, each put for a key and a window adds a value. If False, a put replaces the earlier
        value for the same key and window.
    segment_interval_ms : int, optional
        The width of a segment (ms), 1 or more. The windows of a segment expire together. If
        omitted, the width is Kafka Streams' default: half the retention, but at least one minute.
    time_ordered : bool
        If True, the rows are sorted by start and then by key, so a fetch over all keys returns them
        in the order of time. Kafka Streams uses such a store for windows that emit their results
        only when they close.
    indexed : bool, optional
        True if a time-ordered store has an index by key. The index adds a second row for each
        window. Without an index, a fetch of one key reads the windows of all keys. If omitted, a
        time-ordered store has an index. ``indexed`` must be omitted if ``time_ordered`` is False.

    Raises
    ------
    SpecError
        If the name is invalid, a time is negative, the interval is less than 1, the retention is
        shorter than the window, or ``indexed`` is given for a store that is not time-ordered.
    """
    return _segmented("window", formats.PLAIN, name, retention_ms, segment_interval_ms,
                      time_ordered, indexed, key, value, window_size_ms,
                      retain_duplicates)  # fmt: skip


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
    """Return the spec of a window store whose values have timestamps (KIP-258).

    The parameters and errors are those of :func:`window`.
    """
    return _segmented("window", formats.TIMESTAMPED, name, retention_ms, segment_interval_ms,
                      time_ordered, indexed, key, value, window_size_ms,
                      retain_duplicates)  # fmt: skip


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
    """Return the spec of a window store whose values have timestamps and headers (KIP-1271).

    The parameters and errors are those of :func:`window`.
    """
    return _segmented("window", formats.TIMESTAMPED_HEADERS, name, retention_ms,
                      segment_interval_ms, time_ordered, indexed, key, value, window_size_ms,
                      retain_duplicates)  # fmt: skip


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
    """Return the spec of a plain session store (Kafka: ``persistentSessionStore``).

    The aggregates of the store have no headers.

    Parameters
    ----------
    retention_ms : int
        The retention (ms), 0 or more. A session can be read until stream time reaches its end plus
        the retention.
    segment_interval_ms : int, optional
        The width of a segment (ms), 1 or more. The sessions of a segment expire together. If
        omitted, the width is Kafka Streams' default: half the retention, but at least one minute.
    time_ordered : bool
        If True, the rows are sorted by end, then by start, and then by key, so a fetch over all
        keys returns them in the order of time.
    indexed : bool, optional
        True if a time-ordered store has an index by key. The index adds a second row for each
        session. Without an index, a fetch of one key reads the sessions of all keys. If omitted, a
        time-ordered store has an index. ``indexed`` must be omitted if ``time_ordered`` is False.

    Raises
    ------
    SpecError
        If the name is invalid, a time is negative, the interval is less than 1, or ``indexed`` is
        given for a store that is not time-ordered.
    """
    return _segmented("session", formats.PLAIN, name, retention_ms, segment_interval_ms,
                      time_ordered, indexed, key, value)  # fmt: skip


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
    """Return the spec of a session store whose aggregates have headers (KIP-1271).

    The parameters and errors are those of :func:`session`.
    """
    return _segmented("session", formats.SESSION_HEADERS, name, retention_ms, segment_interval_ms,
                      time_ordered, indexed, key, value)  # fmt: skip


def default_segment_interval(history_retention_ms: int) -> int:
    """Return Kafka Streams' default segment interval (ms) for a versioned store.

    Parameters
    ----------
    history_retention_ms : int
        The retention of the store (ms).
    """
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


def _segmented(
    shape: Shape,
    value_format: ValueFormat,
    name: str,
    retention: int,
    interval: int | None,
    time_ordered: bool,
    indexed: bool | None,
    key: Serde[Any],
    value: Serde[Any],
    size: int | None = None,
    duplicates: bool = False,
) -> StoreSpec:
    """Return the spec of a window or session store."""
    if interval is None and type(retention) is int:
        interval = max(retention // 2, 60_000)  # Kafka Streams' default
    if indexed is not None and not time_ordered:
        raise SpecError(
            f"indexed is {indexed!r} for the store {name!r}, which is not time-ordered; leave out "
            "indexed, or pass time_ordered=True"
        )
    return StoreSpec(
        name, shape, _ORDERED.get(value_format, value_format) if time_ordered else value_format,
        key, value, retention_ms=retention, window_size_ms=size, segment_interval_ms=interval,
        retain_duplicates=duplicates, time_ordered=time_ordered,
        indexed=time_ordered if indexed is None else indexed,
    )  # fmt: skip


_ORDERED = {
    formats.TIMESTAMPED: formats.ORDERED_TIMESTAMPED,
    formats.TIMESTAMPED_HEADERS: formats.ORDERED_TIMESTAMPED_HEADERS,
    formats.SESSION_HEADERS: formats.ORDERED_SESSION_HEADERS,
}
"""The formats that a time-ordered store uses in place of the formats of other stores."""
