from libc.stdint cimport int64_t

from kstore_core.layers.current_record cimport CurrentRecord
from kstore_core.stream_clock cimport StreamClock
from kstore_core.tables.segments.table cimport SegmentedTable
from kstore_core.tables.staging cimport StagedNamespace
from kstore_core.typed.values cimport Values


cdef class Writer:
    cdef Values values
    cdef object make
    cdef StreamClock clock
    cdef int64_t interval
    cdef int64_t first_live
    cdef StagedNamespace rows
    cdef object put_one
    cdef object get_row
    cdef SegmentedTable segments    # None if a layer wraps the table, or keys begin with the time
    cdef object expire
    cdef CurrentRecord current_record
    cdef object touch

    cdef int write(self, bytes row, object raw, int64_t time, object record) except -1
    cdef bint write_in_turn(self, bytes row, object raw, int64_t time) except -1
    cdef bint has_row(self, bytes row, object raw) except -1
    cdef int advance(self, int64_t time) except -1
    cdef int put_row(self, bytes row, object raw, int64_t time) except -1


cdef class WindowWriter(Writer):
    cdef object numbers

    cdef int set(
        self, object key, object value, object start, object timestamp, object headers
    ) except -1
    cdef int set_raw(self, bytes raw_key, object raw, int64_t begin, object record) except -1


cdef class SessionWriter(Writer):
    cdef int set(self, object session, object aggregate, object headers) except -1
    cdef int set_raw(
        self, bytes raw_key, object raw, int64_t start, int64_t end, object record
    ) except -1


cpdef int64_t window_start(object start) except -1
