from kstore_core.engine.bytes_map cimport BytesMap

cdef extern from "Python.h":
    # Each returns True if the collector was enabled before.
    int PyGC_Disable()
    int PyGC_Enable()


cdef class OrderedRows:
    cdef readonly dict rows
    cdef readonly BytesMap table
    cdef dict _pending
    cdef list _chunks
    cdef list _firsts
    cdef unsigned long _epoch
    cdef bint _pinned
    cdef Py_ssize_t _views

    cdef Py_ssize_t _count(self) except -1
    cdef int set(self, bytes key, object value) except -1
    cdef object swap(self, bytes key, object value, object absent)
    cdef bint unset(self, bytes key) except -1
    cpdef OrderedView view(self)
    cdef tuple items(self)
    cdef int _arrange(self) except -1
    cdef int _merge(self) except -1
    cdef int _rebuild(self) except -1
    cdef int _place(self, bytes key, object value) except -1


cdef class OrderedView:
    cdef OrderedRows _owner
    cdef list _chunks
    cdef list _firsts

    cpdef OrderedScan scan(self, bytes lo=*, bytes hi=*, bint reverse=*)


cdef class OrderedScan:
    cdef OrderedView _view
    cdef Py_ssize_t _chunk
    cdef Py_ssize_t _last_chunk
    cdef Py_ssize_t _lo_index
    cdef Py_ssize_t _hi_index
    cdef bint _reverse
    cdef readonly bint done

    cdef tuple all(self)
    cpdef tuple next_chunk(self)


cpdef int close_chunks(object chunks) except -1
cdef int compare(bytes a, bytes b) noexcept
cdef Py_ssize_t bisect_left(list keys, bytes key) noexcept
