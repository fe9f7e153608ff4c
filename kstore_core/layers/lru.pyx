# cython: language_level=3
"""The parts of a cache: entries, their order of use, and the bytes they may take."""

cimport cython

__all__ = ["CacheBudget"]


cdef class CacheBudget:
    """The bytes that the entries of one cache, or of several, may take together.

    Parameters
    ----------
    max_bytes : int
        In Kafka Streams' measure, see docs/caching.md; 0 or more.

    Attributes
    ----------
    used_bytes : int
        What they take now.
    """

    def __cinit__(self, long long max_bytes):
        self.max_bytes = max_bytes
        self.used_bytes = 0


cdef class Part:
    """The entries of one segment; of a table without segments all of them."""

    def __cinit__(self):
        self.entries = {}
        self.dirty = OrderedRows.__new__(OrderedRows)
        self.dirty_index = OrderedRows.__new__(OrderedRows)


@cython.final
@cython.freelist(256)
cdef class Entry:
    """A row that is cached."""


cdef class ByUse:
    """Entries from the one that was used longest ago on: a list linked through them."""

    cdef void add(self, Entry entry) noexcept:
        """Put an entry behind all others."""
        entry.older = self.newest
        entry.newer = NULL
        if self.newest is NULL:
            self.oldest = <PyObject *>entry
        else:
            (<Entry>self.newest).newer = <PyObject *>entry
        self.newest = <PyObject *>entry

    cdef void remove(self, Entry entry) noexcept:
        """Take an entry out."""
        if entry.older is NULL:
            self.oldest = entry.newer
        else:
            (<Entry>entry.older).newer = entry.newer
        if entry.newer is NULL:
            self.newest = entry.older
        else:
            (<Entry>entry.newer).older = entry.older

    cdef void touch(self, Entry entry) noexcept:
        """Move an entry behind all others: it has just been used."""
        if self.newest is not <PyObject *>entry:
            self.remove(entry)
            self.add(entry)


cdef long long context_bytes(object context) except -1:
    """The bytes of a record's context beside timestamp, offset and partition."""
    cdef long long size = 0 if context.topic is None else len(context.topic)
    for name, value in context.headers:
        size += len(name) + (0 if value is None else len(value))
    return size
