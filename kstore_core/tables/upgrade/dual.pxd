from kstore_core.tables.points cimport PointTable
from kstore_core.tables.staging cimport StagedNamespace


cdef class DualTable(PointTable):
    cdef StagedNamespace _old
    cdef readonly StagedNamespace rows
    cdef readonly tuple namespaces
    cdef object _convert
    cdef bint _migrates
    cdef unsigned long long _writes

    cdef object look_up(self, bytes key)
    cdef object set_row(self, bytes key, bytes value)
    cpdef object get(self, bytes key)
    cpdef object put_one(self, bytes key, bytes value)
    cdef long long _growth(self, bytes key, bytes value) except? -1
    cdef int _move(self, bytes key, bytes value, unsigned long long writes) except -1
