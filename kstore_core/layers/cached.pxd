from kstore_core.codec.keys.row_pairs cimport RowPairs
from kstore_core.layers.lru cimport ByUse, CacheBudget, Entry, Part
from kstore_core.layers.flush_listener cimport FlushListener
from kstore_core.layers.current_record cimport CurrentRecord
from kstore_core.tables.points cimport PointTable
from kstore_core.tables.staging cimport StagedNamespace, Staging


cdef class Cached(PointTable):
    cdef readonly object below
    cdef readonly StagedNamespace rows
    cdef readonly CacheBudget budget
    cdef readonly unsigned long long hits
    cdef readonly unsigned long long misses
    cdef readonly unsigned long long flushes
    cdef FlushListener _flush_listener
    cdef Staging _staging
    cdef CurrentRecord _current_record
    cdef readonly object segment_of
    cdef readonly Py_ssize_t key_overhead
    cdef object _below_get
    cdef Py_ssize_t _max_key_bytes
    cdef RowPairs _pairs
    cdef dict _parts
    cdef Part _whole            # the only part of a table without segments
    cdef ByUse _by_use
    cdef Py_ssize_t _dirty
    cdef long long _dirty_bytes
    cdef unsigned long long _writes
    cdef unsigned long long _settles    # the number of flushes that have begun
    cdef bint _evicting
    cdef object _turn                   # the lock that a flush takes
    cdef object _sized_context
    cdef long long _context_bytes

    cdef object look_up(self, bytes key)
    cdef object set_row(self, bytes key, bytes value)
    cdef Part _part(self, bytes key)
    cdef Entry _find(self, bytes key)
    cdef object _read(self, bytes key)
    cdef int _keep(self, bytes key, bytes value, unsigned long long writes) except -1
    cdef Entry _added(self, bytes key)
    cdef list _dirty_parts(self, lo, hi)
    cdef int _check(self, bytes key) except -1
    cdef long long _keys_of(self, bytes key) noexcept
    cdef long long _growth(self, Entry entry, bytes key, bytes value) noexcept
    cdef int _set(
        self, Entry entry, bytes key, bytes value, object context, long long growth
    ) except -1
    cdef int _size(self, Entry entry) except -1
    cdef int _forget(self, Entry entry) except -1
    cdef int _clean(self, Entry entry) except -1
    cdef int _evict(self) except -1
    cdef list _in_write_order(self)
    cdef int _settle(self, list entries) except -1
    cpdef object get(self, bytes key)
    cpdef object put_one(self, bytes key, bytes value)
