from kstore_core.tables.segments.scan cimport OpenScans, SegmentScan
from kstore_core.tables.segments.segment cimport Segment
from kstore_core.tables.staging cimport StagedNamespace


cdef class SegmentedTable:
    cdef readonly StagedNamespace rows
    cdef readonly Py_ssize_t dropped
    cdef readonly Py_ssize_t key_overhead
    cdef object _home
    cdef object _time_of
    cdef long long _interval
    cdef long long _first_live
    cdef dict _segments
    cdef list _recent
    cdef list _ids
    cdef OpenScans _scans
    cdef object _turn

    cdef long long _id_of(self, bytes key) except? -1
    cdef Segment _of(self, bytes key)
    cdef Segment _known(self, long long number)
    cdef Segment _numbered(self, long long number)
    cdef Segment _to_write(self, long long number)
    cdef int _adopt(self, Segment segment) except -1
    cdef int _expire(self, long long first_live) except -1
    cdef list _within(self, long long lo, long long hi)
    cdef bytes find(self, long long number, bytes key)
    cdef int put_at(self, long long number, bytes key, bytes value) except -1
    cdef SegmentScan between(
        self, bytes lo, bytes hi, bint reverse, long long segment_lo, long long segment_hi,
        bint joined,
    )
    cpdef object get(self, bytes key)
    cpdef object put_one(self, bytes key, bytes value)
