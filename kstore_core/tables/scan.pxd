from kstore_core.tables.staging cimport StagedNamespace


cdef class Scan:
    cdef StagedNamespace _rows
    cdef object _chunks
    cdef object _item
    cdef object _table
    cdef bint _packed
    cdef object _watched
    cdef object _state          # a reference, so that the state stays open until the scan ends
    cdef list _keys
    cdef list _values
    cdef Py_ssize_t _at
    cdef Py_ssize_t _size
    cdef long long _left        # bytes of values that may be added to the current Arrow batch
    cdef bint _open

    cdef bint _more(self) except -1
    cdef object _next_table(self, Py_ssize_t max_rows, names)
    cdef tuple _next_packed(self, Py_ssize_t max_rows)
    cdef object _packed_reader(self)
    cdef tuple _taken(self, Py_ssize_t max_rows)
    cdef int _release(self) except -1
