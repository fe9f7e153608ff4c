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

A delete has no value; in formats with headers it has the headers of the input record. The record's
key is the row's key. In a window store it includes the window's start and sequence number, in a
session store the session's times. The format ``ordered_x`` of a time-ordered store is logged like
the format ``x``. Its row keys begin with their times, but the keys of its records begin with the
user's key.
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
"""For schemas whose row keys differ from record keys: to the record's key, and back."""


def _converters(schema: KeySchema | None) -> tuple[_Convert, _Convert] | None:
    if schema in (None, WINDOW, SESSION):
        return None
    if schema not in _LOG_KEYS:
        raise SpecError(f"rows of {schema.name} are index rows, which are not logged")
    return _LOG_KEYS[schema]


def row_layout(value_format: ValueFormat) -> _RowLayout:
    """Return the codec's name of a format's row layout; a version's time is not part of it."""
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
    """Return the changelog records of rows that were written.

    Parameters
    ----------
    value_format : ValueFormat
    keys : sequence of bytes
        The keys in the table; for a versioned store the user's keys.
    rows : sequence of bytes or None
        The values in the table; for a versioned store those passed to ``put``. None is a delete.
    timestamps : sequence of int
        Milliseconds: for a versioned store those of the versions, else those of the input records.
    headers : sequence of headers, optional
        Those of the input records. Only deletes use them.
    schema : KeySchema, optional
        The layout of the row keys of a window or session store.
    first_offset : int, default 0

    Raises
    ------
    FormatError
        A row does not have this format; the text names the row. Or a key does not fit the schema.
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
    """The keys and rows that changelog records restore; the time of a version stays in `records`.

    Raises
    ------
    FormatError
        A record has no key; the text names its offset. Or a key does not fit the schema.
    SpecError
        Rows of this schema are not logged.
    """
    convert = _converters(schema)
    keys, rows = log_to_rows(records, row_layout(value_format))
    return [convert[1](key) for key in keys] if convert else keys, rows
