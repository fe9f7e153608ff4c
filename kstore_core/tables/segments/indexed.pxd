from kstore_core.codec.keys.row_pairs cimport RowPairs
from kstore_core.tables.segments.table cimport SegmentedTable
from kstore_core.tables.staging cimport StagedNamespace


cdef class IndexedTable:
    cdef readonly StagedNamespace rows
    cdef readonly object get
    cdef readonly object get_many
    cdef readonly SegmentedTable below
    cdef readonly Py_ssize_t key_overhead
    cdef RowPairs _pairs
    cdef bint _repairs
    cdef dict _scans
    cdef object _turn

    cdef int _save(self, bytes row, bytes index) except -1
    cdef int _read_ahead(self) except -1
    cdef int _repair(self, bytes index) except -1


cdef class IndexScan:
    cdef IndexedTable _table
    cdef bytes _lo
    cdef bytes _hi
    cdef object _chunks
    cdef dict _saved
    cdef object _ahead
    cdef object __weakref__

    cdef bint _in_range(self, bytes index) except -1
    cdef tuple _next_chunk(self)
    cdef tuple _look_up(self, list index)
    cdef int _release(self) except -1
