from kstore_core.layers.current_record cimport CurrentRecord


cdef class FlushListener:
    cdef readonly object listener
    cdef CurrentRecord _current_record
    cdef object _untold
    cdef bint _telling

    cdef int add(self, list changes) except -1
    cdef int tell(self) except -1
    cdef int forget(self) except -1
