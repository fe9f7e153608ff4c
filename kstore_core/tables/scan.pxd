from kstore_core.tables.staging cimport StagedNamespace


cdef class Scan:
    cdef StagedNamespace _rows
    cdef object _chunks
    cdef object _item
    cdef object _table
    cdef object _watched
    cdef object _state          # a reference, so that the state stays open until the scan ends
    cdef list _keys
    cdef list _values
    cdef Py_ssize_t _at
    cdef Py_ssize_t _size
    cdef bint _open

    cdef bint _more(self) except -1
    cdef int _release(self) except -1
