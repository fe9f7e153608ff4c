from kstore_core.tables.staging cimport StagedNamespace


cdef class PrefixedTable:
    cdef readonly StagedNamespace rows
    cdef object _below
    cdef bytes _prefix
    cdef bytes _end
    cdef StagedNamespace _only

    cdef bytes _from(self, bytes lo)
    cdef bytes _beyond(self, bytes hi)
    cdef tuple _bare(self, tuple begun)
    cdef int _append(self, tuple chunk, list keys, list values) except -1
    cdef tuple _start(self, bytes lo, bytes hi, bint reverse)
    cpdef object get(self, bytes key)
    cpdef object put_one(self, bytes key, bytes value)
