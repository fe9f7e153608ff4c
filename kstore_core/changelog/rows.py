"""A store's rows as records of its changelog and back, by the store's format.

=====================  =====================  ==================================  ================
format                 record's value         record's timestamp                  record's headers
=====================  =====================  ==================================  ================
plain                  the value              the input record's                  none
timestamped            the value alone        the row's; a delete: the input's    none
timestamped_headers    the value alone        the row's; a delete: the input's    the row's
session_headers        the aggregation alone  the input record's                  the row's
versioned              the value              the version's                       none
versioned_headers      the value alone        the version's                       the version's
=====================  =====================  ==================================  ================

A delete has no value, and in formats with headers those of the input record. The key is the row's:
of a window store with the window's start and sequence number, of a session store with its times.
A time-ordered store's formats are logged as the ones that they are named after; its rows begin with
their times, but the record's key begins with the user's key all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kstore_core.codec import (
    RecordColumns,
    log_to_rows,
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
"""To the key of a record, and back to that of the row, where they differ."""


def _converters(schema: KeySchema | None) -> tuple[_Convert, _Convert] | None:
    if schema in (None, WINDOW, SESSION):
        return None
    if schema not in _LOG_KEYS:
        raise SpecError(f"rows of {schema.name} are an index, which is not logged")
    return _LOG_KEYS[schema]


def row_layout(value_format: ValueFormat) -> _RowLayout:
    """The codec's name for the bytes in front of a row's value; of a version without its time."""
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
    """The changelog records of rows that were written.

    Parameters
    ----------
    value_format : ValueFormat
    keys : sequence of bytes
        As in the table; of a versioned store the user's keys.
    rows : sequence of bytes or None
        As in the table; of a versioned store what its ``put`` is given. None is a delete.
    timestamps : sequence of int
        Milliseconds: of a versioned store the versions', else the input records'.
    headers : sequence of headers, optional
        The input records'. Only deletes are given them.
    schema : KeySchema, optional
        Of a window or session store: how its rows are keyed.
    first_offset : int, default 0

    Raises
    ------
    FormatError
        A row is not of this format; names the row. A key is not of the schema.
    SpecError
        Rows of this schema are not logged.
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
    """The keys and rows that changelog records restore; of a version `records` has the time.

    Raises
    ------
    FormatError
        A record has no key; names its offset. A key is not of the schema.
    SpecError
        Rows of this schema are not logged.
    """
    convert = _converters(schema)
    keys, rows = log_to_rows(records, row_layout(value_format))
    return [convert[1](key) for key in keys] if convert else keys, rows
