from cpython.object cimport PyObject

from kstore_core.engine.ordered cimport OrderedRows


cdef class CacheBudget:
    cdef readonly long long max_bytes
    cdef readonly long long used_bytes


cdef class Part:
    cdef dict entries           # all entries, by key
    cdef OrderedRows dirty      # the values that are not flushed
    cdef OrderedRows dirty_index    # these values by index key, if the table has an index


cdef class Entry:
    cdef bytes key
    cdef bytes value            # None is a tombstone
    cdef object context         # the record of the last write, while the entry is dirty
    cdef Part part
    cdef unsigned long long written     # the number of the last write; 0 for a clean entry
    cdef long long size
    cdef PyObject *older        # neighbours in ByUse; borrowed, because a Part owns the entries
    cdef PyObject *newer


cdef class ByUse:
    cdef PyObject *oldest
    cdef PyObject *newest

    cdef void add(self, Entry entry) noexcept
    cdef void remove(self, Entry entry) noexcept
    cdef void touch(self, Entry entry) noexcept


cdef long long context_bytes(object context) except -1
