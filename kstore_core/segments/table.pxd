from kstore_core.staging cimport StagedNamespace


cdef class Segment:
    cdef readonly long long id
    cdef readonly object table
    cdef readonly unsigned long long used
    cdef readonly Py_ssize_t users
    cdef object _get
    cdef object _put

    cdef int _touch(self, unsigned long long moment) except -1
    cdef object _call(self, str method, tuple arguments, dict named=*)
    cdef object _scan(self, bounds)


cdef class SegmentedTable:
    cdef readonly StagedNamespace rows
    cdef readonly Py_ssize_t dropped
    cdef object _home
    cdef object _time_of
    cdef long long _interval
    cdef long long _first_live
    cdef unsigned long long _uses
    cdef dict _segments
    cdef Segment _last
    cdef list _ids
    cdef dict _scans
    cdef object _turn

    cdef long long _id_of(self, bytes key) except? -1
    cdef Segment _of(self, bytes key)
    cdef Segment _to_write(self, long long number)
    cdef int _touch(self, Segment segment) except -1
    cdef int _adopt(self, Segment segment) except -1
    cdef list _within(self, lo, hi)
    cdef int _read_first(self, Segment segment) except -1
    cpdef object get(self, bytes key)
    cpdef object put_one(self, bytes key, bytes value)


cdef class SegmentScan:
    cdef SegmentedTable _table
    cdef object _bounds
    cdef dict _waiting
    cdef dict _begun
    cdef Segment _segment
    cdef object _chunks
    cdef object __weakref__

    cdef int _next_segment(self) except -1
    cdef object _begin(self, Segment segment)
    cdef int _read_early(self, Segment segment) except -1
    cdef int _leave(self) except -1
    cdef int _release(self) except -1
