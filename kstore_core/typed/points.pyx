# cython: language_level=3
"""Point reads and writes of a key-value store: compiled from the user's call to the table's."""

from kstore_core.tables.dual cimport DualTable
from kstore_core.layers.cached cimport Cached
from kstore_core.tables.staging cimport StagedNamespace
from kstore_core.typed.values cimport Values

__all__ = ["Points"]


cdef class Points:
    """The methods of a key-value store that touch one key."""

    cdef Values _values
    cdef object _table_get
    cdef object _table_put
    cdef StagedNamespace _rows  # where the table is a namespace and nothing else
    cdef DualTable _dual        # where it is a store in the middle of an upgrade
    cdef Cached _cached         # where it is a cache
    cdef object _touch

    def __class_getitem__(cls, _):
        return cls

    def _bind(self, Values values not None, table, touch):
        """Stand on ``table``; ``touch`` is called after a write within a record's context."""
        self._values = values
        self._table_get = table.get
        self._table_put = table.put_one
        self._touch = touch
        rows = table.rows
        if type(rows) is StagedNamespace and table.get == rows.get and table.put_one == rows.put:
            self._rows = rows
        elif type(table) is DualTable:
            self._dual = table
        elif type(table) is Cached:
            self._cached = table

    def _share(self, Points store not None):
        self._values = store._values
        self._table_get = store._table_get
        self._table_put = store._table_put
        self._rows = store._rows
        self._dual = store._dual
        self._cached = store._cached
        self._touch = store._touch

    cdef bytes _look_up(self, bytes raw_key):
        if self._rows is not None:
            return self._rows.get(raw_key)
        if self._dual is not None:
            return self._dual.get(raw_key)
        if self._cached is not None:
            return self._cached.get(raw_key)
        return self._table_get(raw_key)

    def get(self, key):
        """The value of ``key``, or None.

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
        """Set ``key`` to ``value``; None deletes.

        Parameters
        ----------
        value
            The wrapper of the store's format, or the bare value with ``timestamp`` and ``headers``
            beside it.
        timestamp : int or datetime, optional
            Left out, it is the input record's, where there is one.
        headers : Headers or iterable of (str, bytes or None), optional
            Left out, they are the input record's, or none.

        Raises
        ------
        TypeError
            ``key`` is None; a timestamp is missing; the format does not keep what was given.
        StateError
            The record of ``state.record(…)`` has ended in the task that started this one.
        UncommittedLimitError
            The state is transactional and holds too much.
        """
        record = self._values.current_record.of_write()
        cdef tuple row = self._values.row(key, value, timestamp, headers)
        if self._rows is not None:
            self._rows.put(row[0], row[1])
        elif self._cached is not None:
            self._cached.put_one(row[0], row[1])
        else:
            self._table_put(row[0], row[1])
        if record is not None:
            self._touch(record)
