from kstore_core.engine.ordered cimport OrderedRows
from kstore_core.tables.points cimport PointTable


cdef class Staging:
    cdef readonly long long max_bytes
    cdef readonly bint transactional
    cdef readonly Py_ssize_t max_key_bytes
    cdef readonly bint empty_keys
    cdef public long long staged_bytes
    cdef public int admitted
    cdef readonly long long spills
    cdef readonly list stores
    cdef public object owner

    cdef bint _has_room(self, long long size) noexcept
    cdef int _grow(self, long long size) except -1
    cdef int spill_for(self, long long size) except -1




cdef class StagedNamespace(PointTable):
    cdef readonly object database
    cdef readonly str name
    cdef readonly object base
    cdef object _base_get
    cdef Staging _staging
    cdef OrderedRows _rows
    cdef list _ranges
    cdef long long _bytes
    cdef unsigned long long _writes
    cdef unsigned long long _staged_writes
    cdef unsigned long long _takes      # how many commits have begun to write the staged rows
    cdef bint _writable
    cdef bint _ready        # False if the namespace is closed or has deferred rows
    cdef bint _closed
    cdef object _deferred
    cdef int _pid
    cdef object __weakref__

    cdef void _count(self, long long growth) noexcept
    cdef int _check_open(self) except -1
    cdef int _check_not_closed(self) except -1
    cdef int _check_writable(self) except -1
    cdef int _check_key(self, bytes key) except -1
    cdef long long _growth(self, bytes key, bytes value) except? -1
    cdef long long _growth_of(self, dict rows) except? -1
    cdef int _stage(self, bytes key, bytes value) except -1
    cdef int _stage_all(self, dict rows) except -1
    cdef int put_dict(self, dict rows) except -1
    cdef int make_room(self, dict rows) except -1
    cdef object look_up(self, bytes key)
    cdef object set_row(self, bytes key, bytes value)
    cdef tuple _take(self)
    cdef bint _nothing_staged(self) noexcept
    cdef tuple _start(self, bytes lo, bytes hi, bint reverse)
    cdef list _starts(self, list ranges, bint reverse)
    cpdef object get(self, bytes key)
    cpdef object put(self, bytes key, bytes value)
