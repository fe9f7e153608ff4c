# cython: language_level=3
"""The conversions of stored rows to windows and sessions, and the reads and writes of one key."""

from cpython cimport array
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport INT64_MAX, int64_t, uint8_t

from kstore_core.codec.keys.parts cimport NO_PREFIX, Parts, take_apart
from kstore_core.codec.keys.ranges cimport compared
from kstore_core.codec.keys.windowed cimport millis, windowed
from kstore_core.typed.reads cimport Reads
from kstore_core.typed.values cimport CUSTOM, Values
from kstore_core.typed.writers cimport SessionWriter, WindowWriter, window_start

from array import array as array_of

from kstore_core.errors import UnsupportedError

__all__ = ["SessionPoints", "SessionRows", "WindowPoints", "WindowRows"]

cdef array.array _TIMES = array_of("q")


cdef class _Rows:
    """The base class of the converters of window rows and session rows."""

    cdef readonly Values values
    cdef bint keys_first
    cdef object split
    cdef bytes last_key     # reused: most rows of a scan have the key of the previous row

    def __cinit__(self, Values values not None, keys not None, *_):
        self.values = values
        self.keys_first = keys.schema.prefix == NO_PREFIX
        self.split = keys.split

    cdef bytes raw_key(self, bytes row, int width, Parts *parts):
        """Return the bytes of the user's key in a row key, and set ``parts`` to the row's times."""
        cdef bytes key
        if not (self.keys_first and in_parts(row, width, parts)):
            key, parts.first, parts.second = <tuple>self.split(row)
            return key
        key = self.last_key
        if key is None or compared(parts, key) != 0:
            key = PyBytes_FromStringAndSize(<const char *>parts.key, parts.key_size)
            self.last_key = key
        return key

    cdef tuple parts_of(self, list rows, int width):
        """Return the user's keys of rows as a list, and the two times of the rows as two arrays."""
        cdef Parts parts
        cdef list keys = []
        cdef array.array firsts = array.clone(_TIMES, len(rows), False)
        cdef array.array seconds = array.clone(_TIMES, len(rows), False)
        cdef Py_ssize_t i
        for i in range(len(rows)):
            keys.append(self.raw_key(<bytes?>rows[i], width, &parts))
            firsts.data.as_longlongs[i] = parts.first
            seconds.data.as_longlongs[i] = parts.second
        return keys, firsts, seconds

    cdef tuple item_of(self, bytes raw_key, object raw, int64_t start, int64_t end):
        """Return the user's ``(Windowed, value)`` for a stored row."""
        cdef Values values = self.values
        if values.key.kind != CUSTOM:
            key, value = values.key.read(raw_key, None, raw_key), values.value_of(raw, raw_key)
        else:
            key, value = values.item(raw_key, raw)
        return windowed(key, start, end), value


cdef class WindowRows(_Rows):
    """A converter of the rows of a window store.

    Parameters
    ----------
    values : Values
    keys : RowKeys
    size_ms : int
        The size of a window. The end of a window is its start plus this size, but at most
        2**63 - 1.
    """

    cdef int64_t size_ms

    def __cinit__(self, values, keys, int64_t size_ms):
        self.size_ms = size_ms

    cdef object look_up(self, Reads reads, key, start):
        """Return the value of ``key`` in the window that begins at ``start``, or None."""
        cdef int64_t first = window_start(start)
        cdef bytes raw = reads.find(self.values.raw_key(key), first, 0)
        return None if raw is None else self.values.value_of(raw, key)

    cdef int64_t end_of(self, int64_t start):
        return start + self.size_ms if start <= INT64_MAX - self.size_ms else INT64_MAX

    cpdef tuple item(self, bytes row, object raw):
        """Return a stored row as ``(Windowed, value)``."""
        cdef Parts parts
        cdef bytes raw_key = self.raw_key(row, 12, &parts)
        return self.item_of(raw_key, raw, parts.first, self.end_of(parts.first))

    cpdef tuple timed(self, bytes row, object raw):
        """Return a stored row as ``(window start, value)``, for reads of one key."""
        cdef Parts parts
        cdef bytes raw_key = self.raw_key(row, 12, &parts)
        return parts.first, self.values.value_of(raw, raw_key)

    def table(self, list rows, list raws, bint headers=True):
        """Return rows as a ``pyarrow.Table``: key, start, end and the columns of the values."""
        cdef array.array starts, ends
        cdef Py_ssize_t i
        keys, starts, ends = self.parts_of(rows, 12)
        for i in range(len(starts)):
            ends.data.as_longlongs[i] = self.end_of(starts.data.as_longlongs[i])
        return _with_times(self.values.table(keys, raws, headers), starts, ends)

    def timed_table(self, list rows, list raws, bint headers=True):
        """Return rows of one key as a ``pyarrow.Table``: start and the columns of the values."""
        return self.table(rows, raws, headers).drop_columns(["key", "end"])


cdef class SessionRows(_Rows):
    """A converter of the rows of a session store.

    Parameters
    ----------
    values : Values
    keys : RowKeys
    """

    cdef object look_up(self, Reads reads, key, int64_t start, int64_t end):
        """Return the aggregate of a session, or None."""
        cdef bytes raw = reads.find(self.values.raw_key(key), end, start)
        return None if raw is None else self.values.value_of(raw, key)

    cpdef tuple item(self, bytes row, object raw):
        """Return a stored row as ``(Windowed, aggregate)``."""
        cdef Parts parts
        cdef bytes raw_key = self.raw_key(row, 16, &parts)
        return self.item_of(raw_key, raw, parts.second, parts.first)

    def table(self, list rows, list raws, bint headers=True):
        """Return rows as a ``pyarrow.Table``: key, start, end and the columns of the values."""
        keys, ends, starts = self.parts_of(rows, 16)
        return _with_times(self.values.table(keys, raws, headers), starts, ends)


cdef class WindowPoints:
    """The methods of a window store that read or write one key."""

    cdef WindowRows _window_rows
    cdef WindowWriter _window_writer
    cdef Reads _window_reads
    cdef object _timed
    cdef object _timed_table
    cdef bint _one_each

    def __class_getitem__(cls, _):
        return cls

    def _bind(
        self, WindowRows rows not None, Reads reads not None, WindowWriter writer not None,
        bint retains_duplicates,
    ):
        self._window_rows = rows
        self._window_writer = writer
        self._timed = rows.timed
        self._timed_table = rows.timed_table
        self._window_reads = reads
        self._one_each = not retains_duplicates

    def put(self, key, value, *, window_start, timestamp=None, headers=None):
        """Set the value of ``key`` in the window that begins at ``window_start``.

        A value of None deletes the stored value. If the store retains duplicates, the value is
        added to the stored values, and None is ignored. A late write is dropped and counted in
        :attr:`late`.

        The other parameters and the errors are those of :meth:`KeyValueStore.put`. A negative start
        of a window raises ValueError.
        """
        self._window_writer.set(key, value, window_start, timestamp, headers)

    def fetch_one(self, key, window_start):
        """Return the value of ``key`` in the window that begins at ``window_start``, or None.

        Raises
        ------
        TypeError
            ``key`` is None.
        ValueError
            The window's start is negative.
        UnsupportedError
            The store retains duplicates, so the window may have many values.
        """
        if not self._one_each:
            raise UnsupportedError(
                f"the store {self.name!r} retains duplicates, so fetch_one cannot return the values of a "
                "window. Read them with fetch(key, window_start, window_start)"
            )
        return self._window_rows.look_up(self._window_reads, key, window_start)

    def fetch(self, key, from_ts=None, to_ts=None, *, bint reverse=False):
        """Return the windows of ``key`` with ``from_ts <= start <= to_ts``, as (start, value).

        Raises
        ------
        ValueError
            ``from_ts`` lies after ``to_ts``.
        """
        cdef int64_t earliest = millis_or(from_ts, 0), latest = millis_or(to_ts, INT64_MAX)
        if earliest > latest and from_ts is not None:
            raise ValueError(f"from_ts {earliest} lies after to_ts {latest}")
        cdef bytes raw = self._window_rows.values.raw_key(key)
        return self._window_reads.scan(
            self._timed, self._timed_table, raw, raw, earliest, latest, INT64_MAX, reverse
        )


cdef class SessionPoints:
    """The methods of a session store that read or write one key."""

    cdef SessionRows _session_rows
    cdef SessionWriter _session_writer
    cdef Reads _session_reads
    cdef object _item
    cdef object _item_table

    def __class_getitem__(cls, _):
        return cls

    def _bind(
        self, SessionRows rows not None, Reads reads not None, SessionWriter writer not None
    ):
        self._session_rows = rows
        self._session_writer = writer
        self._item = rows.item
        self._item_table = rows.table
        self._session_reads = reads

    def put(self, session, aggregate, *, headers=None):
        """Set the aggregate of a session. An aggregate of None removes the session.

        A late write is dropped and counted in :attr:`late`.

        Parameters
        ----------
        aggregate
            An object of the record type of the store's format. Or the aggregate only; ``headers``
            is then an argument.
        headers : Headers or iterable of (str, bytes or None), optional
            By default the headers of the current input record, or no headers without a record.

        Raises
        ------
        TypeError
            ``session`` is not a Windowed, or its key is None. Or headers are given, and the format
            does not store headers.
        UncommittedLimitError
            The state is transactional, and its uncommitted rows exceed the limit.
        """
        self._session_writer.set(session, aggregate, headers)

    def fetch_session(self, key, start, end):
        """Return the aggregate of the session of ``key`` with exactly these times, or None.

        Raises
        ------
        TypeError
            ``key`` is None.
        ValueError
            The start is negative, or the end is before the start.
        """
        cdef int64_t first = millis(start), last = millis(end)
        if first < 0:
            raise ValueError(f"a session's start is {first}; it must not be negative")
        if last < first:
            raise ValueError(f"a session's end {last} lies before its start {first}")
        return self._session_rows.look_up(self._session_reads, key, first, last)

    def find_sessions(self, key, earliest_end, latest_start, *, bint reverse=False):
        """Return the sessions of ``key`` that overlap a span of time.

        These sessions end at ``earliest_end`` or later, and begin at ``latest_start`` or earlier.
        """
        return self._find(
            key, millis_or(earliest_end, 0), millis_or(latest_start, INT64_MAX), reverse
        )

    def fetch(self, key, *, bint reverse=False):
        """Return all visible sessions of ``key``."""
        return self._find(key, 0, INT64_MAX, reverse)

    cdef _find(self, key, int64_t earliest_end, int64_t latest_start, bint reverse):
        cdef bytes raw = self._session_rows.values.raw_key(key)
        return self._session_reads.scan(
            self._item, self._item_table, raw, raw, earliest_end, INT64_MAX, latest_start, reverse
        )


cdef int64_t millis_or(object time, int64_t otherwise) except? -1:
    """Return a time in ms, or ``otherwise`` if the time is None."""
    return otherwise if time is None else millis(time)


cdef inline bint in_parts(bytes row, int width, Parts *parts) noexcept:
    return take_apart(
        <const uint8_t *>PyBytes_AS_STRING(row), PyBytes_GET_SIZE(row), NO_PREFIX, width, parts
    )


cdef object _with_times(object table, array.array starts, array.array ends):
    """Return the table with the columns ``start`` and ``end`` added after the key."""
    import pyarrow as pa

    for at, name, times in ((1, "start", starts), (2, "end", ends)):
        column = pa.Array.from_buffers(pa.int64(), len(times), [None, pa.py_buffer(times)])
        table = table.add_column(at, name, column)
    return table
