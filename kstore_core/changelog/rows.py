"""The conversion between the rows of a store and the records of its changelog, for each format.

===================  ===============  ========================  ====================
format               record value     record timestamp          record headers
===================  ===============  ========================  ====================
plain                the value        that of the input record  none
timestamped          the value        that of the row (*)       none
timestamped_headers  the value        that of the row (*)       those of the row
session_headers      the aggregation  that of the input record  those of the row
versioned            the value        that of the version       none
versioned_headers    the value        that of the version       those of the version
===================  ===============  ========================  ====================

(*) The record of a delete has the timestamp of the input record.

The record of a delete has no value. In formats with headers, the record of a delete has the headers
of the input record.

The record's key is the row's key. The row's key of a window store includes the window's start and
a sequence number; the row's key of a session store includes the session's times.

The rows of a format ``ordered_x`` (of a time-ordered store) are logged like rows of the format
``x``. The keys of these rows begin with their times, but the keys of the records begin with the
user's key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from kstore_core.codec import (
    RecordColumns,
    log_to_packed_rows,
    log_to_rows,
    refuse_null_keys,
    rows_to_log,
    session_key,
    split_session_key,
    split_time_first_session_key,
    split_time_first_window_key,
    split_window_key,
    time_first_session_key,
    time_first_window_key,
    window_key,
)
from kstore_core.errors import SpecError
from kstore_core.formats import ValueFormat
from kstore_core.keys import (
    SESSION,
    SESSION_TIME_FIRST,
    WINDOW,
    WINDOW_TIME_FIRST,
    KeySchema,
)

if TYPE_CHECKING:
    from kstore_core.codec.headers.headers import _HeadersLike
    from kstore_core.codec.log.rows import _RowLayout
    from kstore_core.engine.packed import PackedBytes

__all__ = ["from_log", "row_layout", "to_log"]


_Convert = Callable[[bytes], bytes]

_LOG_KEYS: dict[KeySchema, tuple[_Convert, _Convert]] = {
    WINDOW_TIME_FIRST: (
        lambda row: window_key(*split_time_first_window_key(row)),
        lambda key: time_first_window_key(*split_window_key(key)),
    ),
    SESSION_TIME_FIRST: (
        lambda row: session_key(*split_time_first_session_key(row)),
        lambda key: time_first_session_key(*split_session_key(key)),
    ),
}
"""The functions that convert a row's key to the record's key, and back.

Only the schemas whose row keys differ from record keys are in this mapping.
"""


def _converters(schema: KeySchema | None) -> tuple[_Convert, _Convert] | None:
    if schema in (None, WINDOW, SESSION):
        return None
    if schema not in _LOG_KEYS:
        raise SpecError(
            f"rows of the schema {schema.name} are index rows, and a changelog has no index rows; "
            "pass the schema of the store's rows"
        )
    return _LOG_KEYS[schema]


def row_layout(value_format: ValueFormat) -> _RowLayout:
    """Return the name that the codec uses for the layout of a format's row values.

    The time of a version is not part of this layout.
    """
    timed = value_format.timestamped and not value_format.versioned
    if value_format.headers:
        return "value_timestamp_headers" if timed else "aggregation_with_headers"
    return "value_and_timestamp" if timed else "plain"


def to_log(
    value_format: ValueFormat,
    keys: Sequence[bytes],
    rows: Sequence[bytes | None],
    timestamps: Sequence[int],
    headers: Sequence[_HeadersLike] | None = None,
    *,
    schema: KeySchema | None = None,
    first_offset: int = 0,
) -> RecordColumns:
    """Return the changelog records for rows that were written to a store.

    Parameters
    ----------
    value_format : ValueFormat
    keys : sequence of bytes
        The keys of the rows in the table. For a versioned store, the user's keys.
    rows : sequence of bytes or None
        The values of the rows in the table. For a versioned store, the values passed to ``put``.
        None means a delete.
    timestamps : sequence of int
        The times in ms. For a versioned store, the times of the versions. For any other store, the
        times of the input records.
    headers : sequence of headers, optional
        The headers of the input records. Only the records of deletes get these headers.
    schema : KeySchema, optional
        The layout of the row keys of a window or session store.
    first_offset : int, default 0
        The offset of the first record.

    Raises
    ------
    FormatError
        A row does not have this format (the message names the row), or a key does not fit the
        schema.
    SpecError
        The schema is that of index rows, which are not logged.
    """
    if convert := _converters(schema):
        keys = [convert[0](key) for key in keys]
    return rows_to_log(
        keys,
        rows,
        row_layout(value_format),
        first_offset=first_offset,
        timestamps=timestamps,
        headers=headers,
    )


def from_log(
    value_format: ValueFormat, records: RecordColumns, *, schema: KeySchema | None = None
) -> tuple[list[bytes], list[bytes | None]]:
    """Return the keys and the values of the rows that changelog records restore.

    For a versioned store, the times of the versions are the timestamps of `records`.

    Raises
    ------
    FormatError
        A record has no key (the message names its offset), or a key does not fit the schema.
    SpecError
        The schema is that of index rows, which are not logged.
    """
    convert = _converters(schema)
    keys, rows = log_to_rows(records, row_layout(value_format))
    return [convert[1](key) for key in keys] if convert else keys, rows


def packed_from_log(
    value_format: ValueFormat, records: RecordColumns, chunk_rows: int
) -> Iterator[tuple[PackedBytes, PackedBytes, list[bytes]]]:
    """Convert changelog records to rows of a key-value store, and yield the rows in packed form.

    In packed form, one buffer contains all keys or all values. Each item has the keys and the
    values of rows, and the keys of deleted rows.

    Raises
    ------
    FormatError
        A record has no key; the message names its offset. No rows are returned.
    """
    refuse_null_keys(records)
    layout = row_layout(value_format)
    for start in range(0, len(records), chunk_rows):
        yield log_to_packed_rows(records, layout, start, start + chunk_rows)
