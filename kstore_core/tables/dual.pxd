from kstore_core.tables.staging cimport StagedNamespace


cdef class DualTable:
    cdef StagedNamespace _old
    cdef readonly StagedNamespace rows
    cdef readonly tuple namespaces
    cdef object _convert
    cdef bint _migrates
    cdef unsigned long long _writes

    cpdef object get(self, bytes key)
    cpdef object put_one(self, bytes key, bytes value)
    cdef int _move(self, bytes key, bytes value, unsigned long long writes) except -1
