# cython: language_level=3
"""The reads and writes of single keys in key-value and versioned stores, in compiled code."""

from libc.stdint cimport int64_t

from kstore_core.codec.keys.windowed cimport millis
from kstore_core.stream_clock cimport StreamClock
from kstore_core.tables.points cimport PointTable
from kstore_core.tables.versioned cimport VersionedTable
from kstore_core.typed.values cimport Values, VersionedValues

from types import GenericAlias

from kstore_core.types import NOT_PUT

__all__ = ["Points", "VersionPoints", "version_time"]


cdef class Points:
    """The methods of a key-value store that read or write one key."""

    cdef Values _values
    cdef object _table_get
    cdef object _table_put
    cdef PointTable _points     # None if the table is not compiled
    cdef object _touch

    def __class_getitem__(cls, _):
        return cls

    def _bind(self, Values values not None, table, touch):
        """Set the table, and ``touch``, the callback for the record of each write."""
        self._values = values
        self._table_get = table.get
        self._table_put = table.put_one
        self._touch = touch
        self._points = table.points

    cdef bytes _look_up(self, bytes raw_key):
        if self._points is not None:
            return self._points.look_up(raw_key)
        return self._table_get(raw_key)

    def get(self, key):
        """Return the value of ``key``, or None if the key has no value.

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
        """Set the value of ``key``. A value of None deletes the key.

        Parameters
        ----------
        value
            An object of the record type of the store's format. Or the value only; ``timestamp`` and
            ``headers`` are then arguments.
        timestamp : int or datetime, optional
            By default the timestamp of the current input record.
        headers : Headers or iterable of (str, bytes or None), optional
            By default the headers of the current input record, or no headers without a record.

        Raises
        ------
        TypeError
            ``key`` is None. Or the format needs a timestamp, and there is none. Or a timestamp or
            headers are given, and the format does not store them.
        StateError
            The task was started in a block of ``state.record(…)`` that has ended.
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


cdef class VersionPoints:
    """The methods of a versioned store that read or write one key."""

    cdef VersionedValues _versions
    cdef VersionedTable _version_table      # None if a layer wraps the table
    cdef object _table_put
    cdef object _table_get
    cdef object _table_get_as_of
    cdef StreamClock _clock     # Its lock is taken for a write, because a put reads before it writes.
    cdef object _touch

    @classmethod
    def __class_getitem__(cls, item):
        return GenericAlias(cls, item)

    def _bind(self, VersionedValues values not None, table, touch):
        """Set the table, and ``touch``, the callback for the record of each write."""
        self._versions = values
        if type(table) is VersionedTable:
            self._version_table = table
        self._table_put = table.put
        self._table_get = table.get
        self._table_get_as_of = table.get_as_of
        self._clock = table.clock
        self._touch = touch

    def put(self, key, value, *, timestamp=None, headers=None):
        """Put a version of ``key`` that is valid from ``timestamp``. The value None is a tombstone.

        Parameters
        ----------
        timestamp : int or datetime, optional
            By default the timestamp of the current input record.
        headers : Headers or iterable of (str, bytes or None), optional
            The headers of the version, if the store has headers. By default the headers of the
            input record, or no headers without a record. Pass ``()`` for no headers.

        Returns
        -------
        int
            The end of the new version (ms), which is the timestamp of the next version. LATEST (-1)
            if there is no next version. NOT_PUT (-2**63) if the version was late and was dropped.

        Raises
        ------
        TypeError
            ``key`` is None. Or there is no timestamp. Or headers are given, and the store has no
            headers.
        ValueError
            The timestamp is negative, or does not fit 64 bits.
        StateError
            The task was started in a block of ``state.record(…)`` that has ended.
        """
        record = self._versions.current_record.of_write()
        cdef int64_t time = version_time(timestamp, record)
        cdef tuple row = self._versions.row(key, value, None, headers)
        self.take_turn()
        try:
            code = self.put_in_turn(row[0], row[1], time)
        finally:
            self._clock.turn.end()
        if record is not None:
            self._touch(record)
        return code

    def _put_all(self, list raw_keys, list raws, times):
        """Put serialised versions. The n-th elements belong to one version."""
        cdef Py_ssize_t i
        self.take_turn()
        try:
            for i in range(len(raw_keys)):
                self.put_in_turn(raw_keys[i], raws[i], times[i])
        finally:
            self._clock.turn.end()

    def delete(self, key, *, timestamp=None):
        """Put a tombstone, and return the record that was valid at ``timestamp`` before, or None.

        A late delete does nothing and returns None. The default of ``timestamp`` is the timestamp
        of the current input record.
        """
        record = self._versions.current_record.of_write()
        cdef int64_t time = version_time(timestamp, record)
        cdef bytes raw_key = self._versions.raw_key(key)
        self.take_turn()
        try:
            if not self._clock.accepts(time):
                return None
            old = self.record_of(self.version_at(raw_key, time), key)
            self.put_in_turn(raw_key, None, time)
        finally:
            self._clock.turn.end()
        if record is not None:
            self._touch(record)
        return old

    def get(self, key, as_of=None, *, on_expired="none"):
        """Return the latest version of ``key``, or the version that was valid at ``as_of``.

        Return None if there is no such version.
        """
        cdef bytes raw_key = self._versions.raw_key(key)
        cdef int64_t time
        if as_of is None:
            if self._version_table is not None:
                return self.record_of(self._version_table.get(raw_key), key)
            return self.record_of(self._table_get(raw_key), key)
        time = millis(as_of)
        if on_expired != "none":
            self._check_expired(time, on_expired)
        return self.record_of(self.version_at(raw_key, time), key)

    cdef tuple version_at(self, bytes raw_key, int64_t time):
        if self._version_table is not None:
            return self._version_table.get_as_of(raw_key, time)
        return self._table_get_as_of(raw_key, time)

    cdef object record_of(self, tuple version, object key):
        """Return a version of the table as a record, or None."""
        if version is None:
            return None
        return self._versions.record(version[0], version[1], version[2], key)

    cdef int take_turn(self) except -1:
        """Take the lock of writes. In a fork, raise an error: the lock may stay locked."""
        if not self._clock.turn.try_take():
            self._table_get(b"")
            self._clock.turn.wait()
        return 0

    cdef object put_in_turn(self, bytes raw_key, bytes raw, int64_t time):
        """Put a version and advance stream time. Return NOT_PUT if the version is late."""
        cdef int64_t observed
        if not self._clock.accepts(time):
            return NOT_PUT
        observed = self._clock.observed
        if time > observed:
            self._clock.advance(time)
        try:
            if self._version_table is not None:
                return self._version_table.set(raw_key, raw, time)
            return self._table_put(raw_key, raw, time)
        except BaseException:  # possibly of a listener, which a cache calls after the write
            if self._clock.observed == time and not self.has_version(raw_key, time):
                self._clock.rewind(observed)
            raise

    cdef bint has_version(self, bytes raw_key, int64_t time) except -1:
        """Return True if a version begins at this time, after a put has failed."""
        try:
            version = self.version_at(raw_key, time)
        except Exception:  # Raise the exception of the put instead.
            return False
        return version is not None and version[1] == time


cpdef int64_t version_time(object timestamp, object record) except -1:
    """Return the time of a write in ms, by default the timestamp of the input record."""
    cdef int64_t time
    if timestamp is None:
        timestamp = None if record is None else record.timestamp
        if timestamp is None:
            raise TypeError(
                "a timestamp is missing: pass timestamp=…, or write within "
                "state.record(timestamp=…)"
            )
    time = millis(timestamp)
    if time < 0:
        raise ValueError(
            f"a version's timestamp is {time}; it must not be negative and must fit 64 bits"
        )
    return time
