# cython: language_level=3
"""The entries of a cache, their order of use, and the limit of their size."""

cimport cython

__all__ = ["CacheBudget"]


cdef class CacheBudget:
    """The memory limit of one cache, or the limit that several caches share.

    Parameters
    ----------
    max_bytes : int
        The limit in bytes, 0 or more. docs/caching.md defines the size of an entry.

    Attributes
    ----------
    used_bytes : int
        The present size of all entries in the caches, in bytes.
    """

    def __cinit__(self, long long max_bytes):
        self.max_bytes = max_bytes
        self.used_bytes = 0


cdef class Part:
    """The cached entries of one segment, or of a whole table without segments."""

    def __cinit__(self):
        self.entries = {}
        self.dirty = OrderedRows.__new__(OrderedRows)
        self.dirty_index = OrderedRows.__new__(OrderedRows)


@cython.final
@cython.freelist(256)
cdef class Entry:
    """A cached row."""


cdef class ByUse:
    """A linked list of entries, sorted from the least to the most recently used entry."""

    cdef void add(self, Entry entry) noexcept:
        """Append an entry as the most recently used one."""
        entry.older = self.newest
        entry.newer = NULL
        if self.newest is NULL:
            self.oldest = <PyObject *>entry
        else:
            (<Entry>self.newest).newer = <PyObject *>entry
        self.newest = <PyObject *>entry

    cdef void remove(self, Entry entry) noexcept:
        """Remove an entry."""
        if entry.older is NULL:
            self.oldest = entry.newer
        else:
            (<Entry>entry.older).newer = entry.newer
        if entry.newer is NULL:
            self.newest = entry.older
        else:
            (<Entry>entry.newer).older = entry.older

    cdef void touch(self, Entry entry) noexcept:
        """Move an entry to the end of the list because it was used."""
        if self.newest is not <PyObject *>entry:
            self.remove(entry)
            self.add(entry)


cdef long long context_bytes(object context) except -1:
    """Return the size of a record's topic and headers, in bytes."""
    cdef long long size = 0 if context.topic is None else len(context.topic)
    for name, value in context.headers:
        size += len(name) + (0 if value is None else len(value))
    return size
