# cython: language_level=3, cdivision=True
"""The versioned table, which stores the history of each key in rows of one namespace (KIP-889).

One row contains the latest version of a key. Older versions are in segments of time, with one row
per key and segment. The *valid-to* of a version is the end of its validity, and determines its
segment. The rows, the order of the writes and the results are those of ``RocksDBVersionedStore`` in
Kafka Streams. docs/compatibility.md lists the differences, which correct faults of Kafka Streams.

The table accepts late versions. The typed store checks with its clock whether a version is late
before it writes the version.
"""

import struct
from bisect import bisect_left

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t, uint8_t
from libc.string cimport memcpy

from kstore_core.codec import decode_latest, encode_latest, segment_rows
from kstore_core.codec.primitives.wire cimport load_i64, store_i64
from kstore_core.errors import InconsistentStateError
from kstore_core.tables.base import Bounds, NamespaceTable, Write
from kstore_core.stream_clock cimport StreamClock
from kstore_core.tables.staging cimport StagedNamespace
from kstore_core.tables.version_scans import LATEST_PREFIX, scan_as_of, scan_latest, version_at

__all__ = ["VersionedTable"]

cdef bytes _LATEST = LATEST_PREFIX
cdef int64_t _LATEST_SEGMENT = load_i64(<const uint8_t *>PyBytes_AS_STRING(_LATEST))
cdef int64_t _LATEST_CODE = -1              # kstore_core.types.LATEST
cdef int64_t _NOT_PUT = INT64_MIN           # kstore_core.types.NOT_PUT

cdef object _ID = struct.Struct(">q")
cdef bytes _FIRST_ID = _ID.pack(0)
cdef object _min_timestamp = segment_rows.min_timestamp
cdef object _next_timestamp = segment_rows.next_timestamp
cdef object _new_row = segment_rows.new_row
cdef object _insert_as_latest = segment_rows.insert_as_latest
cdef object _encode_latest = encode_latest


cdef class VersionedTable:
    """A table of the versions of byte keys, stored in the rows of another table.

    Parameters
    ----------
    rows : Table
        The table that stores the rows.
    segment_interval_ms : int
        The width of a segment in ms.
    clock : StreamClock
        The clock of the store. Segments that end before the clock's horizon (stream time minus the
        retention) have expired.
    """

    def __init__(self, rows, int64_t segment_interval_ms, StreamClock clock not None):
        self.rows = rows
        self.segment_interval_ms = segment_interval_ms
        self.clock = clock
        self._namespace = rows.rows if type(rows) is NamespaceTable else None
        # Other threads may read this list. So a write replaces the list instead of changing it.
        self._ids = []
        self.find_segments()

    @property
    def segments(self):
        """The ids of the segments that may contain rows, in ascending order."""
        self.rows.rows.settle()
        return tuple(self._ids)

    def find_segments(self):
        """Find the segments that contain rows, with one seek per segment."""
        cdef list ids = []
        lo = None
        while (row := self.rows.first(lo, _LATEST)) is not None:
            _check_has_segment(row[0])
            (found,) = _ID.unpack_from(row[0])
            if found < 0:
                break
            ids.append(found)
            if found == INT64_MAX:
                break
            lo = _ID.pack(found + 1)
        self._ids = ids

    cdef int64_t _segment_of(self, int64_t timestamp) noexcept:
        return timestamp // self.segment_interval_ms  # C and Java both truncate toward zero.

    cdef bytes _row_key(self, int64_t segment, bytes key):
        """Return the stored key of a user key's row in a segment."""
        cdef Py_ssize_t size = PyBytes_GET_SIZE(key)
        cdef bytes row_key = PyBytes_FromStringAndSize(NULL, 8 + size)
        store_i64(<uint8_t *>PyBytes_AS_STRING(row_key), segment)
        memcpy(PyBytes_AS_STRING(row_key) + 8, PyBytes_AS_STRING(key), size)
        return row_key

    cdef bytes _row(self, bytes row_key):
        """Return the row of a stored key, or None if there is no such row."""
        if self._namespace is not None:
            return self._namespace.get(row_key)
        return self.rows.get(row_key)

    cdef bint _live(self, int64_t segment) except -1:
        """Add ``segment`` to the list of segments. If it has expired, only return False."""
        cdef list ids = self._ids
        if segment < self._segment_of(self.clock.horizon):
            return False
        if not ids or segment > <int64_t>ids[-1]:
            self._ids = [*ids, segment]
        elif segment != <int64_t>ids[-1]:
            at = bisect_left(ids, segment)
            if ids[at] != segment:
                self._ids = [*ids[:at], segment, *ids[at:]]
        return True

    cdef int _expire(self) except -1:
        cdef list ids = self._ids
        cdef int64_t first_live
        if not ids:
            return 0
        first_live = self._segment_of(self.clock.horizon)
        if <int64_t>ids[0] < first_live:
            self._ids = ids[bisect_left(ids, first_live) :]
            self.rows.delete_range(_FIRST_ID, _ID.pack(first_live))
        return 0

    # Writes. A put collects its rows and writes them together, so a read never sees only some of
    # them. Rows of older versions are written first.

    def put(self, bytes key not None, bytes value, int64_t timestamp):
        """Put a version of ``key`` that is valid from ``timestamp`` (ms). None is a tombstone.

        Before this call, the clock of the store must have accepted and observed the timestamp.

        Returns
        -------
        int
            The valid-to of the new version in ms. LATEST (-1) if the version is the latest. NOT_PUT
            (-2**63) if the version was not stored because it is too old for the history.
        """
        return self.set(key, value, timestamp)

    cdef int64_t set(self, bytes key, bytes value, int64_t timestamp) except? -2:
        """Put a version; the C form of :meth:`put`."""
        cdef StagedNamespace staged = self.rows.rows if self._namespace is None else self._namespace
        cdef dict writes = {}
        cdef int64_t code = self._plan(key, value, timestamp, writes)
        while staged.make_room(writes):  # A spill calls listeners, which may put versions of the key.
            writes = {}
            code = self._plan(key, value, timestamp, writes)
        if self._namespace is not None:
            self._namespace._stage_all(writes)
        else:
            self.rows.write([Write(row_key, row) for row_key, row in writes.items()])
        self._expire()
        return code

    cdef int64_t _plan(self, bytes key, bytes value, int64_t timestamp, dict writes) except? -2:
        cdef bytes latest_key = self._row_key(_LATEST_SEGMENT, key)
        cdef bytes latest = self._row(latest_key)
        cdef int64_t latest_ts
        if latest is None:
            return self._plan_in_history(key, value, timestamp, False, 0, writes)
        latest_ts = _time_of(latest)
        if timestamp < latest_ts:
            return self._plan_in_history(key, value, timestamp, True, latest_ts, writes)
        if timestamp > latest_ts:
            self._retire(key, _value_of(latest), latest_ts, timestamp, writes)
        elif value is None:
            self._bury(key, timestamp, writes)
        writes[latest_key] = None if value is None else _encode_latest(timestamp, value)
        return _LATEST_CODE

    cdef int64_t _plan_in_history(
        self, bytes key, bytes value, int64_t timestamp, bint has_newer, int64_t newer, dict writes
    ) except? -2:
        cdef list ids = self._ids
        cdef int64_t own = self._segment_of(timestamp)
        cdef int64_t oldest
        cdef bytes row, row_key
        for segment in reversed(ids[bisect_left(ids, own) :]):
            row_key = self._row_key(segment, key)
            row = self._row(row_key)
            if row is None:
                continue
            if <int64_t>_next_timestamp(row) <= timestamp:
                break
            oldest = _min_timestamp(row)
            if oldest <= timestamp:
                index, valid_from, valid_to, older = segment_rows.find(row, timestamp)
                if valid_from == timestamp:
                    row = segment_rows.update(row, timestamp, value, index)
                elif own != segment:
                    self._retire(key, older, valid_from, timestamp, writes)
                    row = segment_rows.update(row, timestamp, value, index)
                else:
                    row = segment_rows.insert(row, timestamp, value, index)
                writes[row_key] = row
                return valid_to
            if oldest < self.clock.horizon:
                return _NOT_PUT
            has_newer, newer = True, oldest
        if has_newer:
            return self._plan_before(key, value, timestamp, newer, writes)
        if value is None:
            return _LATEST_CODE if self._bury(key, timestamp, writes) else _NOT_PUT
        writes[self._row_key(_LATEST_SEGMENT, key)] = _encode_latest(timestamp, value)
        return _LATEST_CODE

    cdef int _retire(
        self, bytes key, bytes value, int64_t valid_from, int64_t valid_to, dict writes
    ) except -1:
        """Add a version that is no longer the latest to the segment of its valid-to."""
        cdef int64_t segment = self._segment_of(valid_to)
        cdef bytes row, row_key
        if not self._live(segment):
            return 0
        row_key = self._row_key(segment, key)
        row = self._row(row_key)
        if row is None:
            row = _new_row(value, valid_from, valid_to)
        else:
            row = _insert_as_latest(row, valid_from, valid_to, value)
        writes[row_key] = row
        return 0

    cdef bint _bury(self, bytes key, int64_t timestamp, dict writes) except -1:
        """Store a tombstone that no newer version follows.

        Return False if the tombstone was not stored because its segment has expired.
        """
        cdef int64_t segment = self._segment_of(timestamp)
        cdef int64_t end
        cdef bytes row, row_key
        if not self._live(segment):
            return False
        row_key = self._row_key(segment, key)
        row = self._row(row_key)
        if row is None:
            writes[row_key] = segment_rows.degenerate_row(timestamp)
        else:
            end = _next_timestamp(row)
            if end != timestamp:
                writes[row_key] = _insert_as_latest(row, end, timestamp, None)
        return True

    cdef int64_t _plan_before(
        self, bytes key, bytes value, int64_t timestamp, int64_t newer, dict writes
    ) except? -2:
        """Store a version that ends at ``newer``, the timestamp of the next newer version."""
        cdef int64_t segment = self._segment_of(newer)
        cdef bytes row, row_key
        if not self._live(segment):
            return _NOT_PUT
        row_key = self._row_key(segment, key)
        row = self._row(row_key)
        if row is None:
            row = _new_row(value, timestamp, newer)
        elif <int64_t>_next_timestamp(row) <= timestamp:
            row = _insert_as_latest(row, timestamp, newer, value)
        else:
            row = segment_rows.insert_as_earliest(row, timestamp, value)
        writes[row_key] = row
        return newer

    def load(self, chunks):
        """Load stored rows in ascending order into an empty table, and return their number."""
        count = self.rows.load(chunks)
        self.find_segments()
        return count

    # Reads.

    def expired(self, timestamp):
        """Return True if ``timestamp`` (ms) lies before the history that the store keeps."""
        return timestamp < self.clock.horizon

    cpdef tuple get(self, bytes key):
        """Return the latest version of ``key``, or None if the key is missing or deleted."""
        return self._latest(key, INT64_MAX)

    cdef tuple _latest(self, bytes key, int64_t as_of):
        """Return the latest version, or None if its validity begins after ``as_of`` (ms)."""
        if key is None:
            raise TypeError("a key must be bytes, not None")
        cdef bytes row = self._row(self._row_key(_LATEST_SEGMENT, key))
        if row is None:
            return None
        cdef int64_t timestamp = _time_of(row)
        return (_value_of(row), timestamp, None) if timestamp <= as_of else None

    def latest_of(self, bytes row_key not None, bytes row not None):
        """Return the latest version that a row stores, or None if the row stores older versions."""
        if not row_key.startswith(_LATEST):
            return None
        timestamp = _time_of(row)
        return _value_of(row), timestamp, None

    cpdef tuple get_as_of(self, bytes key, int64_t as_of):
        """Return the version of ``key`` that was valid at ``as_of`` (ms), or None."""
        cdef tuple latest = self._latest(key, as_of)
        cdef list ids
        cdef bytes row
        cdef Py_ssize_t at
        if latest is not None:
            return latest
        if as_of < self.clock.horizon:
            return None
        ids = self._ids
        for at in range(bisect_left(ids, self._segment_of(as_of)), len(ids)):
            row = self._row(self._row_key(ids[at], key))
            if row is not None and <int64_t>_next_timestamp(row) > as_of:
                return version_at(row, as_of) if <int64_t>_min_timestamp(row) <= as_of else None
        return None

    def get_many(self, list keys not None, as_of=None):
        """Return a version, or None, for each of ``keys``, in the order of ``keys``.

        The result has the versions that were valid at ``as_of`` (ms), or the latest versions if
        ``as_of`` is None.
        """
        cdef list found = []
        cdef list ids, later, wanted
        for row in self.rows.get_many([_LATEST + <bytes?>key for key in keys]):
            version = None
            if row is not None:
                timestamp, value = decode_latest(row)
                if as_of is None or timestamp <= as_of:
                    version = (value, timestamp, None)
            found.append(version)
        if as_of is None or self.expired(as_of):
            return found
        wanted = [index for index, version in enumerate(found) if version is None]
        ids = self._ids
        for segment in ids[bisect_left(ids, self._segment_of(as_of)) :]:
            if not wanted:
                break
            rows = self.rows.get_many([self._row_key(segment, keys[index]) for index in wanted])
            later = []
            for index, row in zip(wanted, rows):
                if row is None or _next_timestamp(row) <= as_of:
                    later.append(index)
                elif _min_timestamp(row) <= as_of:
                    found[index] = version_at(row, as_of)
            wanted = later
        return found

    def history(self, bytes key not None, from_ts, to_ts, *, bint reverse):
        """Return the versions of ``key`` that were valid at some time in a range.

        The range is from ``from_ts`` to ``to_ts``, both in ms and inclusive. If a limit is None,
        the range has no limit at that end. The oldest version comes first, or the newest version if
        ``reverse`` is True. The result contains no tombstones.
        """
        lo = INT64_MIN if from_ts is None else from_ts
        hi = INT64_MAX if to_ts is None else to_ts
        cdef list versions = []
        latest = self.get(key)
        if latest is not None and latest[1] <= hi:
            versions.append(latest)
        if not self.expired(hi):
            for segment in reversed(self._ids):
                row = self._row(self._row_key(segment, key))
                if row is not None:
                    found = segment_rows.find_all(row, lo, hi)
                    # Another thread may put a newer version during this read. The former latest
                    # version then moves to a segment row, and would be returned twice.
                    while versions and found and found[0][0] >= versions[-1][1]:
                        del found[0]
                    versions += [
                        (value, valid_from, valid_to) for valid_from, valid_to, value in found
                    ]
        if not reverse:
            versions.reverse()
        return versions

    def scan_latest(self, bounds):
        """Return an iterator of keys with their latest versions, in key order.

        Writes that follow this call do not change the result.
        """
        return scan_latest(self.rows, bounds)

    def scan_as_of(self, bounds, as_of):
        """Return an iterator of keys with the versions valid at ``as_of`` (ms), in key order.

        Writes that follow this call do not change the result.
        """
        self.rows.rows.settle()  # Deferred rows may be in more segments.
        cdef list ids = [] if self.expired(as_of) else self._ids
        first = bisect_left(ids, self._segment_of(as_of)) if ids else 0
        prefixes = [self._row_key(segment, b"") for segment in reversed(ids[first:])]
        return scan_as_of(self.rows, prefixes, bounds, as_of)


cdef bytes _value_of(bytes latest):
    """Return the value in a row whose timestamp `_time_of` has read."""
    return PyBytes_FromStringAndSize(PyBytes_AS_STRING(latest) + 8, PyBytes_GET_SIZE(latest) - 8)


cdef int64_t _time_of(bytes latest) except? -2:
    """Return the timestamp in a row that stores a latest version."""
    if PyBytes_GET_SIZE(latest) < 8:
        decode_latest(latest)  # raises
    return load_i64(<const uint8_t *>PyBytes_AS_STRING(latest))


def _check_has_segment(key):
    if len(key) < len(_LATEST):
        raise InconsistentStateError(
            f"the stored key {key!r} does not begin with a segment id, so the store is not a "
            "versioned store. Open the store with the spec that it was written with"
        )
