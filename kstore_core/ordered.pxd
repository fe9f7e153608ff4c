cdef class OrderedRows:
    cdef readonly dict rows
    cdef dict _pending
    cdef list _chunks
    cdef list _firsts
    cdef unsigned long _epoch
    cdef bint _pinned
    cdef Py_ssize_t _views

    cdef int set(self, bytes key, object value) except -1
    cdef bint unset(self, bytes key) except -1
    cpdef OrderedView view(self)
    cdef tuple items(self)
    cdef void _merge(self)
    cdef void _rebuild(self)
    cdef void _place(self, bytes key, object value)


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


cdef int compare(bytes a, bytes b) noexcept
cdef Py_ssize_t bisect_left(list keys, bytes key) noexcept
