# cython: language_level=3
"""Writes that add their change to a list of changes for a changelog.

The handler of a signal may run between any two steps of Python code, and raise an exception. If it
ran after a write and before its note, the changelog would never receive the change. This module is
compiled, so no handler runs between its own steps.
"""

from libc.stdint cimport int64_t

from kstore_core.stream_clock cimport StreamClock, Turn

from kstore_core.types import NOT_PUT

__all__ = ["UNKNOWN_TIME", "LoggedVersions", "NotedPuts", "Notes"]

UNKNOWN_TIME = -1

cdef int64_t _NOT_PUT = NOT_PUT


cdef class Notes:
    """The list of a store's changes that were not sent to its changelog yet.

    Parameters
    ----------
    current_record : CurrentRecord
        The object that returns the input record of a write, if the write does not contain the
        record.
    has_headers : bool
        True if the rows contain headers.

    Attributes
    ----------
    current_record : CurrentRecord
    noted_bytes : int
        The total size of the keys and values in the list, in bytes.
    """

    def __init__(self, current_record, bint has_headers):
        self.current_record = current_record
        self.noted_bytes = 0
        self._has_headers = has_headers
        self._changes = []

    cpdef object note(self, bytes key, bytes row, context):
        """Add a staged row to the list.

        The change gets the time and headers of ``context``. If ``context`` is None, the change gets
        the time and headers of the current input record.
        """
        record = context or self.current_record.current
        timestamp = None if record is None else record.timestamp
        self.note_version(key, row, UNKNOWN_TIME if timestamp is None else timestamp, record)

    cpdef object note_version(self, bytes key, bytes value, timestamp, record):
        """Add a staged version with the time ``timestamp`` (ms) to the list."""
        headers = None
        if value is not None:
            self.noted_bytes += len(key) + len(value)
        else:
            self.noted_bytes += len(key)
            if record is not None and self._has_headers:
                # Copy the headers, because their owner may change them before they are sent.
                headers = record.headers.copy()
        self._changes.append((key, value, timestamp, headers))


cdef class NotedPuts:
    """The puts of single rows, and the lock of all writes, of a table with a changelog.

    The object is a context manager, in which this thread holds the lock.

    Parameters
    ----------
    below : Table
        The table to write to.
    notes : Notes
    make_room : callable
        A function that is called with the size of a write in bytes, before the write.
    """

    def __init__(self, below, Notes notes not None, make_room):
        self._rows = below.rows
        self._put_below = below.put_one
        self._make_room = make_room
        self._notes = notes
        self._turn = Turn()

    def put(self, bytes key not None, bytes value):
        """Write the value of ``key``, or delete the key if ``value`` is None.

        The time and headers of the change are those of the current input record.
        """
        self._make_room(len(key) if value is None else len(key) + len(value))
        self._begin()
        try:
            self._put_below(key, value)
            self._notes.note(key, value, None)
        finally:
            self._turn.end()

    def __enter__(self):
        self._begin()
        return self

    def __exit__(self, kind, error, trace):
        self._turn.end()

    cdef int _begin(self) except -1:
        if not self._turn.try_take():
            self._rows._check_open()  # raises in a fork, where the lock may never be released
            self._turn.wait()
        return 0


cdef class LoggedVersions(VersionedTable):
    """A versioned table whose puts also go to a changelog.

    The changelog contains the versions, and not the rows in which the table stores the versions.
    """

    def __init__(self, rows, int64_t segment_interval_ms, StreamClock clock not None, journal):
        VersionedTable.__init__(self, rows, segment_interval_ms, clock)
        self._make_room = journal.make_room
        self._notes = journal

    def put(self, bytes key not None, bytes value, int64_t timestamp):
        """Put a version, and add it to the journal if the table has stored it."""
        self._make_room(len(key) if value is None else len(key) + len(value))
        cdef int64_t code = self.set(key, value, timestamp)
        if code != _NOT_PUT:
            self._notes.note_version(key, value, timestamp, self._notes.current_record.current)
        return code
