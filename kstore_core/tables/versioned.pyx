# cython: language_level=3, cdivision=True
"""The versioned table: a key's history in rows of one namespace (KIP-889).

The latest version of a key is one row, its older versions are rows by segment of time: a version
lies in the segment of its *valid-to*. Rows, order of writes and results are Kafka's
``RocksDBVersionedStore``; docs/compatibility.md lists the corrections.

The table does not refuse late versions: the typed store asks its clock before it writes.
"""

import struct
from bisect import bisect_left

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t, uint8_t

from kstore_core.codec import decode_latest, encode_latest, segment_rows
from kstore_core.codec.primitives.wire cimport load_i64
from kstore_core.errors import InconsistentStateError
from kstore_core.tables.base import Bounds, NamespaceTable, Write
from kstore_core.tables.staging cimport StagedNamespace
from kstore_core.tables.version_scans import LATEST_PREFIX, scan_as_of, scan_latest, version_at

__all__ = ["VersionedTable"]

cdef bytes _LATEST = LATEST_PREFIX
cdef int64_t _LATEST_CODE = -1              # kstore_core.types.LATEST
cdef int64_t _NOT_PUT = INT64_MIN           # kstore_core.types.NOT_PUT
cdef int _MAX_PREFIXES = 100_000

cdef object _ID = struct.Struct(">q")
cdef bytes _FIRST_ID = _ID.pack(0)
cdef object _min_timestamp = segment_rows.min_timestamp
cdef object _next_timestamp = segment_rows.next_timestamp


cdef class VersionedTable:
    """Versions of byte keys over a table of rows.

    Parameters
    ----------
    rows : Table
        The table of the physical rows.
    segment_interval_ms : int
        Width of a segment.
    clock : StreamClock
        The store's clock; segments before its horizon have expired.
    """

    def __init__(self, rows, int64_t segment_interval_ms, clock):
        self.rows = rows
        self.segment_interval_ms = segment_interval_ms
        self.clock = clock
        self._namespace = rows.rows if type(rows) is NamespaceTable else None
        self._prefixes = {}
        self._ids = []  # replaced, never changed in place: other threads may read it
        self.find_segments()

    @property
    def segments(self):
        """The ids of the segments that may hold rows, ascending."""
        return tuple(self._ids)

    def find_segments(self):
        """List the segments by skipping from one to the next: a seek each."""
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
        return timestamp // self.segment_interval_ms  # of C: it truncates toward zero, as in Java

    cdef bytes _row_key(self, int64_t segment, bytes key):
        """The key of a row of a segment."""
        cdef bytes prefix = self._prefixes.get(segment)
        if prefix is None:
            if len(self._prefixes) > _MAX_PREFIXES:
                self._prefixes.clear()
            prefix = self._prefixes[segment] = _ID.pack(segment)
        return prefix + key

    cdef bytes _row(self, bytes row_key):
        """The row of a physical key, or None."""
        if self._namespace is not None:
            return self._namespace.get(row_key)
        return self.rows.get(row_key)

    cdef bint _live(self, int64_t segment) except -1:
        """Make ``segment`` a live one, unless it has expired."""
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

    # Writes. A put collects its rows and writes them together, older rows first, so that the rows
    # below never contain only some of them.

    def put(self, bytes key not None, bytes value, int64_t timestamp):
        """Put the version of ``key`` that begins at ``timestamp``; None is a tombstone.

        The clock must have accepted and observed the timestamp.

        Returns
        -------
        int
            The new version's valid-to in ms, LATEST (-1) or NOT_PUT (-2**63).
        """
        cdef dict writes = {}
        cdef int64_t code = self._plan(key, value, timestamp, writes)
        if self._namespace is not None:
            self._namespace.put_many(writes)
        else:
            self.rows.write([Write(row_key, row) for row_key, row in writes.items()])
        self._expire()
        return code

    cdef int64_t _plan(self, bytes key, bytes value, int64_t timestamp, dict writes) except? -2:
        cdef bytes latest_key = _LATEST + key
        cdef bytes latest = self._row(latest_key)
        cdef int64_t latest_ts
        if latest is None:
            return self._plan_in_history(key, value, timestamp, False, 0, writes)
        latest_ts = _time_of(latest)
        if timestamp < latest_ts:
            return self._plan_in_history(key, value, timestamp, True, latest_ts, writes)
        if timestamp > latest_ts:
            self._retire(key, latest[8:], latest_ts, timestamp, writes)
        elif value is None:
            self._bury(key, timestamp, writes)
        writes[latest_key] = None if value is None else encode_latest(timestamp, value)
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
            if oldest < <int64_t>self.clock.horizon:
                return _NOT_PUT
            has_newer, newer = True, oldest
        if has_newer:
            return self._plan_before(key, value, timestamp, newer, writes)
        if value is None:
            return _LATEST_CODE if self._bury(key, timestamp, writes) else _NOT_PUT
        writes[_LATEST + key] = encode_latest(timestamp, value)
        return _LATEST_CODE

    cdef int _retire(
        self, bytes key, bytes value, int64_t valid_from, int64_t valid_to, dict writes
    ) except -1:
        """Add a version that has ended, as the newest in the segment of its valid-to."""
        cdef int64_t segment = self._segment_of(valid_to)
        cdef bytes row, row_key
        if not self._live(segment):
            return 0
        row_key = self._row_key(segment, key)
        row = self._row(row_key)
        if row is None:
            row = segment_rows.new_row(value, valid_from, valid_to)
        else:
            row = segment_rows.insert_as_latest(row, valid_from, valid_to, value)
        writes[row_key] = row
        return 0

    cdef bint _bury(self, bytes key, int64_t timestamp, dict writes) except -1:
        """Record a tombstone without a newer version. Return False if its segment has expired."""
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
                writes[row_key] = segment_rows.insert_as_latest(row, end, timestamp, None)
        return True

    cdef int64_t _plan_before(
        self, bytes key, bytes value, int64_t timestamp, int64_t newer, dict writes
    ) except? -2:
        """Put a version whose valid-to is the timestamp of the next newer version."""
        cdef int64_t segment = self._segment_of(newer)
        cdef bytes row, row_key
        if not self._live(segment):
            return _NOT_PUT
        row_key = self._row_key(segment, key)
        row = self._row(row_key)
        if row is None:
            row = segment_rows.new_row(value, timestamp, newer)
        elif <int64_t>_next_timestamp(row) <= timestamp:
            row = segment_rows.insert_as_latest(row, timestamp, newer, value)
        else:
            row = segment_rows.insert_as_earliest(row, timestamp, value)
        writes[row_key] = row
        return newer

    def load(self, chunks):
        """Bulk load physical rows, ascending, into an empty table, and return their number."""
        count = self.rows.load(chunks)
        self.find_segments()
        return count

    # Reads.

    def expired(self, timestamp):
        """Return True if ``timestamp`` lies before the history."""
        return timestamp < self.clock.horizon

    cpdef tuple get(self, bytes key):
        """The latest version, unless it is a tombstone."""
        return self._latest(key, INT64_MAX)

    cdef tuple _latest(self, bytes key, int64_t as_of):
        """The latest version if it began at ``as_of`` (ms) or before."""
        if key is None:
            raise TypeError("a key is bytes, not None")
        cdef bytes row = self._row(_LATEST + key)
        if row is None:
            return None
        cdef int64_t timestamp = _time_of(row)
        return (row[8:], timestamp, None) if timestamp <= as_of else None

    def latest_of(self, bytes row_key not None, bytes row not None):
        """The version of a physical row that is a key's latest; None for any other row."""
        if not row_key.startswith(_LATEST):
            return None
        return row[8:], _time_of(row), None

    def get_as_of(self, bytes key, int64_t as_of):
        """The version that was valid at ``as_of`` (ms)."""
        cdef tuple latest = self._latest(key, as_of)
        cdef list ids
        cdef bytes row
        cdef Py_ssize_t at
        if latest is not None:
            return latest
        if as_of < <int64_t>self.clock.horizon:
            return None
        ids = self._ids
        for at in range(bisect_left(ids, self._segment_of(as_of)), len(ids)):
            row = self._row(self._row_key(ids[at], key))
            if row is not None and <int64_t>_next_timestamp(row) > as_of:
                return version_at(row, as_of) if <int64_t>_min_timestamp(row) <= as_of else None
        return None

    def get_many(self, list keys not None, as_of=None):
        """The versions of many keys, latest or as of one time (ms), in their order."""
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
        """The versions valid at some time in ``[from_ts, to_ts]`` (ms, inclusive, None open).

        Oldest first; newest first with ``reverse``. Tombstones are left out.
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
                    # A version that another thread ends meanwhile moves to an older row, and is
                    # found there again.
                    while versions and found and found[0][0] >= versions[-1][1]:
                        del found[0]
                    versions += [
                        (value, valid_from, valid_to) for valid_from, valid_to, value in found
                    ]
        if not reverse:
            versions.reverse()
        return versions

    def scan_latest(self, bounds):
        """Keys with their latest versions, in key order, as of this call."""
        return scan_latest(self.rows, bounds)

    def scan_as_of(self, bounds, as_of):
        """Keys with the versions valid at ``as_of`` (ms), in key order, as of this call."""
        cdef list ids = [] if self.expired(as_of) else self._ids
        first = bisect_left(ids, self._segment_of(as_of)) if ids else 0
        prefixes = [self._row_key(segment, b"") for segment in reversed(ids[first:])]
        return scan_as_of(self.rows, prefixes, bounds, as_of)


cdef int64_t _time_of(bytes latest) except? -2:
    """The timestamp of a latest row."""
    if PyBytes_GET_SIZE(latest) < 8:
        decode_latest(latest)  # raises
    return load_i64(<const uint8_t *>PyBytes_AS_STRING(latest))


def _check_has_segment(key):
    if len(key) < len(_LATEST):
        raise InconsistentStateError(
            f"the key {key!r} does not begin with a segment id, so these are not the rows of a "
            "versioned store; open it as the kind of store that it is"
        )
