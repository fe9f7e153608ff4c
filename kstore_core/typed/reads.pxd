from libc.stdint cimport int64_t

from kstore_core.codec.keys.ranges cimport KeyLayout
from kstore_core.stream_clock cimport StreamClock
from kstore_core.tables.segments.table cimport SegmentedTable
from kstore_core.tables.staging cimport StagedNamespace
from kstore_core.tables.scan cimport Scan


cdef bytes row_of(bytes key, int64_t first, int64_t second, bint session, bint behind)


cdef class Reads:
    cdef object _table
    cdef object _get
    cdef StagedNamespace _rows
    cdef KeyLayout _layout
    cdef SegmentedTable _segments   # None if a layer wraps the table, or keys begin with the time
    cdef StreamClock _clock
    cdef object _keys
    cdef int64_t _interval
    cdef int64_t _hidden
    cdef bint _session

    cdef int64_t last_hidden(self) except? -2
    cdef bytes find(self, bytes key, int64_t first, int64_t second)
    cdef Scan scan(
        self, item, columns, bytes key_from, bytes key_to, int64_t earliest, int64_t latest,
        int64_t latest_start, bint reverse
    )
    cdef object _of_key(
        self, bytes key, int64_t earliest, int64_t latest, int64_t latest_start, bint reverse
    )
