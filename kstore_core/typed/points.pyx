# cython: language_level=3
"""Reads and writes of one key in a key-value store, without Python frames."""

from kstore_core.tables.points cimport PointTable
from kstore_core.typed.values cimport Values

__all__ = ["Points"]


cdef class Points:
    """The methods of a key-value store that read or write one key."""

    cdef Values _values
    cdef object _table_get
    cdef object _table_put
    cdef PointTable _points     # None where the table is not compiled
    cdef object _touch

    def __class_getitem__(cls, _):
        return cls

    def _bind(self, Values values not None, table, touch):
        """Set the table. ``touch`` is called after a write that has a current input record."""
        self._values = values
        self._table_get = table.get
        self._table_put = table.put_one
        self._touch = touch
        self._points = table.points

    def _share(self, Points store not None):
        self._values = store._values
        self._table_get = store._table_get
        self._table_put = store._table_put
        self._points = store._points
        self._touch = store._touch

    cdef bytes _look_up(self, bytes raw_key):
        if self._points is not None:
            return self._points.look_up(raw_key)
        return self._table_get(raw_key)

    def get(self, key):
        """Return the value of ``key``, or None.

        Raises
        ------
        TypeError
            ``key`` is None.
        FormatError
            The stored bytes are not of the store's format.
        """
        cdef bytes raw = self._look_up(self._values.raw_key(key))
        return None if raw is None else self._values.value_of(raw, key)

    def put(self, key, value, *, timestamp=None, headers=None):
        """Set the value of ``key``. A value of None deletes.

        Parameters
        ----------
        value
            The record type of the store's format, or the value with ``timestamp`` and ``headers``
            as arguments.
        timestamp : int or datetime, optional
            By default the input record's.
        headers : Headers or iterable of (str, bytes or None), optional
            By default the input record's, or none.

        Raises
        ------
        TypeError
            ``key`` is None; a timestamp is missing; the format does not store a given argument.
        StateError
            The record of ``state.record(…)`` has ended in the task that started this one.
        UncommittedLimitError
            The state is transactional, and its uncommitted rows exceed the limit.
        """
        record = self._values.current_record.of_write()
        cdef tuple row = self._values.row(key, value, timestamp, headers)
        if self._points is not None:
            self._points.set_row(row[0], row[1])
        else:
            self._table_put(row[0], row[1])
        if record is not None:
            self._touch(record)
