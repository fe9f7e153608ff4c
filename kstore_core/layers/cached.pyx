# cython: language_level=3
"""The record cache: a table that keeps rows of another table in memory, for stores of every shape.

A row in the cache is dirty if it was written and is not flushed yet. All other rows are clean. A
commit flushes the cache. A write also flushes the cache, if the cache exceeds its limit and the
least recently used row is dirty. If a key was written several times, a flush writes only the last
value, with the input record of the last write. The rules are those of ``ThreadCache``,
``NamedCache`` and ``Caching…Store`` in Kafka Streams. docs/caching.md has the rules, and lists the
differences from Kafka Streams.
"""

from dataclasses import replace
from operator import itemgetter
from threading import RLock

from cpython.bytes cimport PyBytes_GET_SIZE
from cpython.dict cimport PyDict_GetItemWithError
from cpython.object cimport PyObject

from kstore_core.codec.keys.row_pairs cimport RowPairs
from kstore_core.layers.lru cimport ByUse, CacheBudget, Entry, Part, context_bytes
from kstore_core.layers.flush_listener cimport FlushListener
from kstore_core.engine.ordered cimport OrderedRows, close_chunks, compare
from kstore_core.layers.current_record cimport CurrentRecord
from kstore_core.tables.staging cimport StagedNamespace, Staging

from kstore_core.errors import KeyTooLongError
from kstore_core.system.interrupts import uninterrupted
from kstore_core.layers.merging import merged_segments
from kstore_core.tables.merged import MergedScan
from kstore_core.tables import Bounds, Write
from kstore_core.types import RecordContext

__all__ = ["Cached"]

cdef bytes _INDEX = b"\x01"         # the first byte of index rows
cdef object _NO_RECORD = RecordContext()
cdef object _new_tuple = tuple.__new__  # makes a Write without its constructor's Python frame
cdef enum:
    ENTRY_BYTES = 24 + 1            # what Kafka Streams adds to the size of key and value
    CONTEXT_BYTES = 8 + 8 + 4       # timestamp, offset, partition


cdef object _context_of(object value, object context):
    """Return the context that the flush of a write uses.

    The flush logs a delete with the headers of the input record. The owner of the headers may
    change them before the flush, so the function copies the headers for a delete. During the copy,
    other threads may run. So call this function before any change of the cache.
    """
    if value is None and context is not None and len(context.headers):
        return replace(context, headers=context.headers.copy())
    return context


cdef class Cached(PointTable):
    """A table that caches the rows of another table.

    Parameters
    ----------
    below : Table
        The table whose rows are cached. Its segments may expire.
    budget : CacheBudget
        The memory limit, which several caches may share. If a write to this cache exceeds the
        limit, this cache evicts its own entries.
    current_record : CurrentRecord
        The object that returns the input record of a write, if the write does not contain the
        record.
    pairs : RowPairs, optional
        The object that computes the keys of index rows; None if ``below`` has no index. With an
        index, the cache also contains the index rows of dirty rows.

    Attributes
    ----------
    hits : int
        The number of lookups of one key that found the key in the cache.
    misses : int
        The number of lookups of one key that did not find the key in the cache.
    flushes : int
        The number of flushes that wrote rows.
    """

    def __cinit__(
        self,
        below not None,
        CacheBudget budget not None,
        CurrentRecord current_record not None,
        *,
        RowPairs pairs=None,
    ):
        self.below = below
        self.budget = budget
        self.rows = below.rows
        self._staging = self.rows._staging
        self._current_record = current_record
        self.segment_of = below.segment_of
        self.key_overhead = below.key_overhead
        self._below_get = below.get
        self._max_key_bytes = self._staging.max_key_bytes - self.key_overhead
        self._pairs = pairs
        self._whole = Part.__new__(Part)
        self._parts = {} if self.segment_of is not None else {0: self._whole}
        self._by_use = ByUse.__new__(ByUse)
        self._flush_listener = FlushListener(current_record)
        self._turn = RLock()

    cdef object look_up(self, bytes key):
        return self.get(key)

    cdef object set_row(self, bytes key, bytes value):
        return self.put_one(key, value)

    def __repr__(self):
        return f"<Cached, {self._dirty} rows not flushed, over {self.below!r}>"

    @property
    def dirty_bytes(self):
        """The size of the keys and values of dirty rows, in bytes."""
        return self._dirty_bytes

    # Lookups of entries.

    cdef Part _part(self, bytes key):
        """Return the `Part` of the segment of ``key``, or None if it does not exist yet."""
        if self.segment_of is None:
            return self._whole
        return <Part>self._parts.get(self.segment_of(key))

    cdef Entry _find(self, bytes key):
        cdef Part part = self._part(key)
        if part is None:
            return None
        cdef PyObject *found = PyDict_GetItemWithError(part.entries, key)
        return None if found is NULL else <Entry>found

    # Reads.

    cpdef object get(self, bytes key):
        """Return the value of ``key`` from the cache or from the table below, or None."""
        if not self.rows._ready:
            self.rows._check_open()
        if key is None:
            raise TypeError("a key must be bytes, not None")
        cdef Entry entry = self._find(key)
        if entry is None:
            return self._read(key)
        self.hits += 1
        self._by_use.touch(entry)
        return entry.value

    cdef object _read(self, bytes key):
        """Read a row from the table below. Cache the row, unless a write happened meanwhile."""
        cdef unsigned long long writes = self._writes
        cdef bytes value
        self.misses += 1
        value = self._below_get(key)
        if value is not None and writes == self._writes:
            self._keep(key, value, writes)
        return value

    cdef int _keep(self, bytes key, bytes value, unsigned long long writes) except -1:
        """Add a row to the cache after a read. Do not flush, because any thread may call this."""
        cdef Entry entry = self._added(key)
        if entry.size:  # Another thread has just added the entry.
            return 0
        if writes != self._writes:
            return self._forget(entry)
        entry.value = value
        self._size(entry)
        while self.budget.used_bytes > self.budget.max_bytes:
            if self._by_use.oldest is NULL:
                return 0
            entry = <Entry>self._by_use.oldest
            if entry.written:
                entry = <Entry>self._by_use.newest
                return 0 if entry.written else self._forget(entry)
            self._forget(entry)
        return 0

    cdef Entry _added(self, bytes key):
        """Return the entry of ``key``. If the entry is missing, add the entry first.

        The new entry is allocated before the lookup, because an allocation may start the garbage
        collector, and then another thread may run. No other thread can run after the lookup.
        """
        cdef Entry entry = Entry.__new__(Entry)
        cdef Part part = self._part(key)
        if part is None:
            part = <Part>self._parts.setdefault(self.segment_of(key), Part.__new__(Part))
        cdef PyObject *found = PyDict_GetItemWithError(part.entries, key)
        if found is not NULL:
            return <Entry>found
        entry.key = key
        entry.part = part
        part.entries[key] = entry
        self._by_use.add(entry)
        return entry

    def get_many(self, list keys not None):
        """Return the values of ``keys`` in the order of ``keys``; None for a missing key.

        Rows that are read from the table below are not added to the cache.
        """
        cdef list values = [None] * len(keys), missing = []
        cdef Py_ssize_t index
        cdef Entry entry
        self.rows._check_open()
        for index in range(len(keys)):
            entry = self._find(keys[index])
            if entry is None:
                missing.append(index)
            else:
                self._by_use.touch(entry)
                values[index] = entry.value
        if missing:
            found = self.below.get_many([keys[index] for index in missing])
            for index, value in zip(missing, found):
                values[index] = value
        return values

    def scan(self, bounds):
        """Return an iterator of chunks of rows in the order of the table below.

        Writes that follow this call do not change the result.
        """
        self.rows._check_open()
        if not self._dirty:
            return self.below.scan(bounds)
        # Read the cache before the table below. If a row is flushed in between, the scan finds the
        # row twice and merges both. In the opposite order the scan would miss the row.
        cdef Part part
        cdef OrderedRows kept
        cdef list dirty = []
        cdef unsigned long long settles = self._settles
        cdef bint by_index = self._pairs is not None and bounds.lo is not None and (
            compare(_INDEX, bounds.lo) <= 0
        )
        for number, part in self._dirty_parts(bounds.segment_lo, bounds.segment_hi):
            kept = part.dirty_index if by_index else part.dirty
            rows = kept.view().scan(bounds.lo, bounds.hi, bounds.reverse)
            dirty.append((number, rows))
        lower = self.below.scan(bounds)
        if settles != self._settles:  # A flush may have written rows that the views lack.
            close_chunks(lower)
            return self.scan(bounds)
        if self.segment_of is not None:
            return merged_segments(dirty, lower, self.segment_of, bounds.reverse)
        return MergedScan(dirty[0][1], lower, (), bounds.reverse)

    cdef list _dirty_parts(self, lo, hi):
        """Return ``(segment, part)`` of each segment that has dirty rows, in ascending order."""
        cdef Part part
        cdef list found = []
        for number, part in list(self._parts.items()):
            if part.dirty.rows and (lo is None or lo <= number) and (hi is None or number <= hi):
                found.append((number, part))
        found.sort(key=itemgetter(0))
        return found

    def first(self, lo=None, hi=None, *, reverse=False):
        """Return the first row that a scan would yield, or None if there is no row."""
        if not self._dirty:
            return self.below.first(lo, hi, reverse=reverse)
        for keys, values in self.scan(Bounds(lo, hi, reverse)):
            return keys[0], values[0]
        return None

    def approximate_count(self):
        """Return the approximate number of rows. Each dirty row is counted as a new row."""
        cdef Part part
        cdef Py_ssize_t count = 0
        for part in list(self._parts.values()):
            for value in part.dirty.rows.values():
                count += value is not None
        return count + self.below.approximate_count()

    # Writes. A write checks the limits of staging, so a flush need not check them.

    cdef int _check(self, bytes key) except -1:
        self.rows._check_writable()
        self.rows._check_key(key)
        if PyBytes_GET_SIZE(key) > self._max_key_bytes:
            raise KeyTooLongError(
                f"the key {key[:16]!r}… has {len(key)} bytes, and this store accepts at most "
                f"{self._max_key_bytes}, including the bytes that kstore adds for versions and "
                "windows; nothing was written. Use shorter keys or another engine"
            )
        return 0

    cdef long long _growth(self, Entry entry, bytes key, bytes value) noexcept:
        """Return the change in the size of uncommitted rows, in bytes, that a write would make.

        ``entry`` is the present entry of the key, or None.
        """
        cdef long long growth = 0 if value is None else PyBytes_GET_SIZE(value)
        if entry is None or not entry.written:
            return growth + self._keys_of(key)
        return growth if entry.value is None else growth - PyBytes_GET_SIZE(entry.value)

    cdef inline long long _keys_of(self, bytes key) noexcept:
        """Return the size of the key in bytes, or twice this size if the row has an index row."""
        return PyBytes_GET_SIZE(key) * (1 if self._pairs is None else 2)

    cpdef object put_one(self, bytes key, bytes value):
        """Write the value of ``key``, or delete the key if ``value`` is None.

        The write gets the context of the current input record.
        """
        self._check(key)
        cdef object context = _context_of(value, self._current_record.now())
        cdef Entry entry = self._find(key)
        cdef long long growth = self._growth(entry, key, value)
        if self._staging._grow(growth):
            entry = self._find(key)
            growth = self._growth(entry, key, value)
        self._set(entry, key, value, context, growth)
        if self.budget.used_bytes > self.budget.max_bytes:
            self._evict()

    def write(self, writes):
        """Write rows in the given order. If a row is refused, no row is written."""
        cdef object current = self._current_record.now()
        cdef list given = [
            (key, value, _context_of(value, current if context is None else context))
            for key, value, context in writes
        ]
        cdef dict last = {}
        cdef Entry entry
        cdef bytes key, value
        cdef long long growth = 0
        for key, value, _ in given:
            self._check(key)
            last[key] = value
        for key, value in last.items():
            growth += self._growth(self._find(key), key, value)
        self._staging._grow(growth)
        for key, value, context in given:
            entry = self._find(key)
            growth = self._growth(entry, key, value)
            self._set(entry, key, value, context, growth)
        if self.budget.used_bytes > self.budget.max_bytes:
            self._evict()

    cdef int _set(
        self, Entry entry, bytes key, bytes value, object context, long long growth
    ) except -1:
        """Add a written row to the cache. The caller has checked the limit of staging."""
        if entry is None:
            entry = self._added(key)
        self._by_use.touch(entry)
        entry.part.dirty.set(key, value)
        if self._pairs is not None:
            entry.part.dirty_index.set(self._pairs.index_of(key), value)
        self._dirty += 0 if entry.written else 1
        self._writes += 1
        entry.value = value
        entry.context = _NO_RECORD if context is None else context
        entry.written = self._writes
        self._dirty_bytes += growth
        self._staging.staged_bytes += growth
        return self._size(entry)

    cdef int _size(self, Entry entry) except -1:
        """Update the size of an entry, and the used bytes of the budget."""
        cdef long long size = PyBytes_GET_SIZE(entry.key) + ENTRY_BYTES + CONTEXT_BYTES
        if entry.value is not None:
            size += PyBytes_GET_SIZE(entry.value)
        if entry.written:
            if entry.context is not self._sized_context:
                self._context_bytes = context_bytes(entry.context)
                self._sized_context = entry.context
            size += self._context_bytes
        self.budget.used_bytes += size - entry.size
        entry.size = size
        return 0

    def delete_range(self, bytes lo not None, bytes hi):
        """Delete the rows with ``lo <= key < hi`` from the cache and from the table below.

        The range has no upper limit if ``hi`` is None.
        """
        cdef Part part
        cdef Entry entry
        self.rows._check_writable()
        with self._turn:
            self._writes += 1
            for part in list(self._parts.values()):
                for entry in list(part.entries.values()):
                    if compare(lo, entry.key) <= 0 and (hi is None or compare(entry.key, hi) < 0):
                        self._forget(entry)
            self.below.delete_range(lo, hi)

    def load(self, chunks):
        """Load ascending rows into the table below. Dirty rows hide loaded rows with equal keys."""
        self.rows._check_writable()
        with self._turn:
            try:
                return self.below.load(chunks)
            finally:
                self._writes += 1
                self._forget_clean()

    def expire(self, long long first_live):
        """Remove the segments before ``first_live`` from the cache and from the table below."""
        cdef Part part
        cdef Entry entry
        with self._turn:
            self._writes += 1
            for number in [number for number in self._parts if number < first_live]:
                part = <Part>self._parts[number]
                for entry in list(part.entries.values()):
                    self._forget(entry)
                del self._parts[number]
            self.below.expire(first_live)

    def discard(self):
        """Remove all entries without flushing them, because the store is being closed."""
        cdef Part part
        cdef Entry entry
        self._writes += 1
        self._flush_listener.clear()
        for part in list(self._parts.values()):
            for entry in list(part.entries.values()):
                self._forget(entry)

    # Removal of entries.

    cdef int _forget(self, Entry entry) except -1:
        """Remove an entry from the cache without flushing it."""
        if entry.written:
            self._clean(entry)
        self._by_use.remove(entry)
        self.budget.used_bytes -= entry.size
        del entry.part.entries[entry.key]
        return 0

    cdef int _clean(self, Entry entry) except -1:
        """Mark an entry as clean, after its flush or before its removal."""
        cdef long long size = self._keys_of(entry.key)
        if entry.value is not None:
            size += PyBytes_GET_SIZE(entry.value)
        entry.part.dirty.unset(entry.key)
        if self._pairs is not None:
            entry.part.dirty_index.unset(self._pairs.index_of(entry.key))
        entry.written = 0
        entry.context = None
        self._dirty -= 1
        self._dirty_bytes -= size
        self._staging.staged_bytes -= size
        return self._size(entry)

    def _forget_clean(self):
        cdef Entry entry
        cdef Part part
        for part in list(self._parts.values()):
            for entry in list(part.entries.values()):
                if not entry.written:
                    self._forget(entry)

    cdef int _evict(self) except -1:
        """Remove the least recently used entries until the cache is within its limit.

        If the least recently used entry is dirty, flush the cache first.
        """
        cdef Entry entry
        cdef bint flushed = False
        # During a flush a listener may write. The entries of this write stay until the next write.
        if self._evicting:
            return 0
        self._evicting = True
        try:
            while self.budget.used_bytes > self.budget.max_bytes and (
                self._by_use.oldest is not NULL
            ):
                entry = <Entry>self._by_use.oldest
                if not entry.written:
                    self._forget(entry)
                elif flushed:
                    break
                else:
                    flushed = True
                    self.flush()
        finally:
            self._evicting = False
        return 0

    def flush(self):
        """Write the dirty rows to the table below, in the order of their last writes.

        Then call the listener for each change. If the listener raises an exception, the rows remain
        flushed, and this method raises the exception. The next flush first calls the listener again
        for the same change.

        Returns
        -------
        bool
            True if rows were written, or if changes for the listener are still queued.
        """
        cdef list entries
        # Without the lock, another thread could write an older row of a key after a newer row.
        with self._turn, uninterrupted():
            entries = self._in_write_order()
            if entries:
                self._settle(entries)
        return bool(self._flush_listener.notify() or entries)

    cdef list _in_write_order(self):
        cdef Part part
        cdef Entry entry
        cdef list order = []
        for part in list(self._parts.values()):
            for key in part.dirty.rows:
                entry = <Entry>part.entries[key]
                order.append((entry.written, entry))
        order.sort(key=itemgetter(0))
        return order

    cdef int _settle(self, list entries) except -1:
        """Write entries to the table below. Then mark them as clean, and remove tombstones."""
        cdef Entry entry
        cdef list writes = [], changes = []
        olds = None
        if self._flush_listener.listener is not None:
            olds = self.below.get_many([(<Entry>pair[1]).key for pair in entries])
        self._settles += 1
        for index, (_, entry) in enumerate(entries):
            if olds is not None:
                if entry.value is None and olds[index] is None:
                    # The key was put and deleted since the last flush, so nothing has changed.
                    continue
                context = None if entry.context is _NO_RECORD else entry.context
                changes.append((entry.key, entry.value, olds[index], context))
            writes.append(_new_tuple(Write, (entry.key, entry.value, entry.context)))
        # During this call, the rows are counted twice: in the cache and in the table below. So the
        # limit must not apply now. The puts of the rows have already checked the limit.
        self._staging.admitted += 1
        try:
            if writes:
                self.below.write(writes)
        finally:
            self._staging.admitted -= 1
        self.flushes += 1
        self._flush_listener.add(changes)
        for written, entry in entries:
            # Skip an entry that another write has changed since the flush began.
            if entry.written == <unsigned long long>written:
                if entry.value is None:
                    self._forget(entry)
                else:
                    self._clean(entry)
        return 0

    def listen(self, listener):
        """Call ``listener(key, new, old)`` for each change that a later flush writes.

        During a call the current record is the input record of the change. If ``listener`` is None,
        the present listener is removed.
        """
        self._flush_listener.listen(listener)
