from kstore_core.tables.segments.segment cimport Segment
from kstore_core.tables.staging cimport StagedNamespace


cdef class OpenScans:
    cdef StagedNamespace _rows
    cdef dict _scans
    cdef object _turn

    cdef int read_first(self, Segment segment) except -1


cdef class SegmentScan:
    cdef OpenScans _others
    cdef bytes _lo
    cdef bytes _hi
    cdef bint _reverse
    cdef list _waiting
    cdef dict _begun
    cdef Segment _segment
    cdef object _chunk
    cdef object _rest
    cdef bint _known
    cdef object __weakref__

    cdef int _next_segment(self) except -1
    cdef int _come_to_next(self) except -1
    cdef tuple _begin(self, Segment segment)
    cdef bint _begin_together(self) except -1
    cdef int _read_early(self, Segment segment) except -1
    cdef int _leave(self) except -1
    cdef int _release(self) except -1
