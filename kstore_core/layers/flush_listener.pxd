from kstore_core.layers.current_record cimport CurrentRecord


cdef class FlushListener:
    cdef readonly object listener
    cdef CurrentRecord _current_record
    cdef object _queue
    cdef bint _calling

    cdef int add(self, list changes) except -1
    cdef int notify(self) except -1
    cdef int clear(self) except -1
