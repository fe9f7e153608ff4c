"""The factories of store specs; each spec is checked when it is made."""

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
    """Return a key-value store of bare values (Kafka: ``persistentKeyValueStore``)."""
    return StoreSpec(name, "key_value", formats.PLAIN, key, value)


def timestamped_key_value(
    name: str, *, key: Serde[Any] = serdes.BYTES, value: Serde[Any] = serdes.BYTES
) -> StoreSpec:
    """Return a key-value store of values with timestamps (KIP-258)."""
    return StoreSpec(name, "key_value", formats.TIMESTAMPED, key, value)


def timestamped_key_value_with_headers(
    name: str, *, key: Serde[Any] = serdes.BYTES, value: Serde[Any] = serdes.BYTES
) -> StoreSpec:
    """Return a key-value store of values with timestamps and headers (KIP-1271)."""
    return StoreSpec(name, "key_value", formats.TIMESTAMPED_HEADERS, key, value)


def versioned_key_value(
    name: str,
    history_retention_ms: int,
    segment_interval_ms: int | None = None,
    *,
    key: Serde[Any] = serdes.BYTES,
    value: Serde[Any] = serdes.BYTES,
) -> StoreSpec:
    """Return a key-value store with a history of versions (KIP-889).

    Parameters
    ----------
    history_retention_ms : int
        The time, ms, for which a version stays after stream time has passed its end, and the
        greatest lateness of a record; 0 or more.
    segment_interval_ms : int, optional
        The width of a segment, ms, whose versions expire together; 1 or more. Default: Kafka's for
        the retention.

    Raises
    ------
    SpecError
        The name is invalid, the retention is negative, or the interval is below 1.
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
    """Return a versioned store whose versions keep their headers.

    Kafka Streams has no such store, so the layout is kstore's own and may change; see
    docs/formats.md.
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
    """Return a store of bare values by key and window (Kafka: ``persistentWindowStore``).

    Parameters
    ----------
    retention_ms : int
        The time, ms, for which a window can be read after stream time has passed its start; at
        least ``window_size_ms``.
    window_size_ms : int
        The time, ms, from a window's start to its end; 0 or more.
    retain_duplicates : bool
        If True, each put of a key and window adds a value. If False, it replaces the earlier one.
    segment_interval_ms : int, optional
        The width of a segment, ms, whose windows expire together; 1 or more. Default: Kafka's, half
        the retention, at least a minute.
    time_ordered : bool
        If True, rows are sorted by start, then by key, and a fetch over all keys is in the order of
        time. Kafka Streams does so for results that it emits when their window closes.
    indexed : bool, optional
        For a time-ordered store: if True, an index finds the windows of a key, at the cost of a
        second row for each window. If False, a fetch of a key reads the windows of all keys.
        Default: True.

    Raises
    ------
    SpecError
        The name is invalid, a time is negative, the interval is below 1, or the retention is
        shorter than the window. Or ``indexed`` is given for a store that is not time-ordered.
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
    """Return a window store of values with timestamps (KIP-258). Otherwise as :func:`window`."""
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
    """Return a window store of values with timestamps and headers (KIP-1271). Otherwise as
    :func:`window`."""
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
    """Return a store of aggregates by key and session (Kafka: ``persistentSessionStore``).

    Parameters
    ----------
    retention_ms : int
        The time, ms, for which a session can be read after stream time has passed its end; 0 or
        more.
    segment_interval_ms : int, optional
        As for :func:`window`.
    time_ordered : bool
        If True, rows are sorted by end, then start, then key; otherwise as for :func:`window`.
    indexed : bool, optional
        As for :func:`window`.

    Raises
    ------
    SpecError
        The name is invalid, a time is negative, or the interval is below 1. Or ``indexed`` is given
        for a store that is not time-ordered.
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
    """A session store of aggregates with headers (KIP-1271). Otherwise as :func:`session`."""
    return _segmented("session", formats.SESSION_HEADERS, name, retention_ms, segment_interval_ms,
                      time_ordered, indexed, key, value)  # fmt: skip


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
        interval = max(retention // 2, 60_000)  # Kafka's default
    if indexed is not None and not time_ordered:
        raise SpecError(
            f"indexed is {indexed!r} for the store {name!r}, which is not time-ordered; leave it "
            "out, or pass time_ordered=True"
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
"""The format in which a time-ordered store keeps the values of another one."""
