# cython: language_level=3
"""Between a user's keys with their windows or sessions and stored rows."""

from libc.stdint cimport INT64_MAX, int64_t

from kstore_core.codec.windowed cimport windowed
from kstore_core.typed.values cimport Values

__all__ = ["SessionRows", "WindowRows"]


cdef class WindowRows:
    """The rows of a window store.

    Parameters
    ----------
    values : Values
    keys : RowKeys
    size_ms : int
        What is added to a window's start to tell its end, which is at most 2**63 - 1.
    """

    cdef readonly Values values
    cdef object make
    cdef object split
    cdef int64_t size_ms

    def __cinit__(self, Values values not None, keys not None, int64_t size_ms):
        self.values = values
        self.make = keys.make
        self.split = keys.split
        self.size_ms = size_ms

    def look_up(self, get, key, start):
        """The value of ``key`` in the window from ``start``, or None, by a table's ``get``."""
        raw = get(self.make(self.values.raw_key(key), start))
        return None if raw is None else self.values.read(<bytes?>raw)

    cdef int64_t end_of(self, int64_t start):
        return start + self.size_ms if start <= INT64_MAX - self.size_ms else INT64_MAX

    cpdef tuple item(self, bytes row, object raw):
        """A stored row as ``(Windowed, value)``."""
        raw_key, start, _ = <tuple>self.split(row)
        key, value = self.values.item(raw_key, raw)
        return windowed(key, start, self.end_of(start)), value

    cpdef tuple timed(self, bytes row, object raw):
        """A stored row of one key as ``(window start, value)``."""
        _, start, _ = <tuple>self.split(row)
        return start, self.values.read(raw)

    def table(self, rows, raws):
        """Stored rows as a ``pyarrow.Table``: key, start, end, and the columns of the value."""
        cdef list parts = [self.split(row) for row in rows]
        keys = [key for key, _, _ in parts]
        starts = [start for _, start, _ in parts]
        return _with_times(
            self.values.table(keys, raws), starts, [self.end_of(start) for start in starts]
        )

    def timed_table(self, rows, raws):
        """Stored rows of one key as a ``pyarrow.Table``: start, and the columns of the value."""
        return self.table(rows, raws).drop_columns(["key", "end"])


cdef class SessionRows:
    """The rows of a session store.

    Parameters
    ----------
    values : Values
    keys : RowKeys
    """

    cdef readonly Values values
    cdef object make
    cdef object split

    def __cinit__(self, Values values not None, keys not None):
        self.values = values
        self.make = keys.make
        self.split = keys.split

    def look_up(self, get, key, start, end):
        """The aggregate of a session, or None, by a table's ``get``."""
        raw = get(self.make(self.values.raw_key(key), start, end))
        return None if raw is None else self.values.read(<bytes?>raw)

    cpdef tuple item(self, bytes row, object raw):
        """A stored row as ``(Windowed, aggregate)``."""
        raw_key, end, start = <tuple>self.split(row)
        key, value = self.values.item(raw_key, raw)
        return windowed(key, start, end), value

    def table(self, rows, raws):
        """Stored rows as a ``pyarrow.Table``: key, start, end, and the columns of the value."""
        cdef list parts = [self.split(row) for row in rows]
        return _with_times(
            self.values.table([key for key, _, _ in parts], raws),
            [start for _, _, start in parts],
            [end for _, end, _ in parts],
        )


cdef object _with_times(object table, list starts, list ends):
    """The table with its windows or sessions beside the key."""
    import pyarrow as pa

    for at, name, times in ((1, "start", starts), (2, "end", ends)):
        table = table.add_column(at, name, pa.array(times, pa.int64()))
    return table
