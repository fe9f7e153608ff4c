from kstore_core.tables.segments.prefixed cimport PrefixedTable
from kstore_core.tables.staging cimport StagedNamespace


cdef class Segment:
    cdef readonly long long id
    cdef readonly object table
    cdef readonly unsigned long long used
    cdef readonly Py_ssize_t users
    cdef bint gone                  # set if the segment has expired
    cdef object _get
    cdef object _put
    cdef StagedNamespace _rows      # set if the table is a NamespaceTable
    cdef PrefixedTable _part        # set if the table is a PrefixedTable

    cdef int _touch(self) except -1
    cdef object _call(self, str method, tuple arguments, dict named=*)
    cdef bytes _look_up(self, bytes key)
    cdef int _set(self, bytes key, bytes value) except -1
    cdef tuple _start(self, bytes lo, bytes hi, bint reverse)
