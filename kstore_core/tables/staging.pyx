# cython: language_level=3
"""Staging: the rows that are written but not committed, in memory over an engine's namespaces.

Every write of a state directory is staged first. A read looks at staged rows before it reads the
engine. A commit writes all staged rows, sorted, in one batch of the engine. If the staged bytes
exceed their limit, a transactional state refuses the write; any other state spills the rows, that
is, writes them to the engine before the commit, without offsets.
"""

import os
import sys
import weakref

from kstore_core.engine import Namespace, Rows
from kstore_core.errors import (
    ForkedHandleError,
    KeyTooLongError,
    StoreClosedError,
    UncommittedLimitError,
    UnsupportedError,
)
from kstore_core.tables.merged cimport in_ranges
from kstore_core.tables.merged import MergedScan
from kstore_core.engine.ordered cimport OrderedRows, PyGC_Disable, PyGC_Enable, close_chunks

__all__ = ["AbsentNamespace", "StagedNamespace", "Staging", "reserve", "take"]

cdef object _MISSING = object()


cdef class Staging:
    """The limit of the staged bytes of one state directory.

    Parameters
    ----------
    max_bytes : int
        The greatest size of all staged keys and values, in bytes; negative for no limit.
    transactional : bool
        If True, refuse a write beyond the limit; if False, spill the staged rows.
    max_key_bytes : int, optional
        The longest key that the engine accepts, in bytes.
    empty_keys : bool
        True if the engine accepts an empty key.

    Attributes
    ----------
    owner : callable or None
        Returns the state directory, or None once it was collected. A scan references the state
        directory until the scan ends.
    stores : list
        The open stores. The ``spill()`` of each writes its rows to the engine.
    staged_bytes : int
        The size of all keys and values that are staged or cached now, in bytes.
    admitted : int
        The number of threads that are flushing a cache. Cached rows were counted when they entered
        the cache, so a flush is neither refused nor makes other stores spill.
    spills : int
        The number of spills so far.
    """

    def __cinit__(
        self,
        long long max_bytes,
        bint transactional=False,
        *,
        max_key_bytes=None,
        bint empty_keys=True,
    ):
        self.max_bytes = max_bytes
        self.transactional = transactional
        self.max_key_bytes = sys.maxsize if max_key_bytes is None else max_key_bytes
        self.empty_keys = empty_keys
        self.staged_bytes = 0
        self.admitted = 0
        self.spills = 0
        self.stores = []

    cdef bint _has_room(self, long long size) noexcept:
        """Return True if ``size`` more bytes can be staged without a spill."""
        return (
            self.max_bytes < 0
            or size <= 0
            or self.admitted > 0
            or self.staged_bytes + size <= self.max_bytes
        )

    cdef int _grow(self, long long size) except -1:
        """Make room for ``size`` more bytes. Return True if this spilled the staged rows."""
        if not self._has_room(size):
            if self.transactional:
                raise UncommittedLimitError(
                    f"{self.staged_bytes + size} uncommitted bytes exceed uncommitted_max_bytes="
                    f"{self.max_bytes}; the last write was not made. Commit more often or raise "
                    "the limit"
                )
            if self.staged_bytes > 0:
                self.spill()
                return 1
        return 0

    def spill(self):
        """Write the staged rows of every store to the engine, without offsets.

        Spilled rows are as durable as committed rows, even if no commit follows.
        """
        for store in self.stores:
            store.spill()
        self.spills += 1


class AbsentNamespace(Namespace):
    """An empty stand-in for a namespace that a read-only database lacks."""

    def __init__(self, name):
        self.name = name

    def get(self, key):
        return None

    def get_many(self, keys):
        return [None] * len(keys)

    def scan(self, lo=None, hi=None, *, reverse=False):
        return iter(())

    def approximate_count(self):
        return 0


cdef class StagedNamespace(PointTable):
    """One namespace of a database with the rows staged over it.

    Parameters
    ----------
    staging : Staging
        The limit of the state directory.
    database : kstore_core.engine.Database
    name : str
        The name of the namespace. A missing namespace is created.
    writable : bool
        If False, refuse writes, and treat a missing namespace as an empty one.
    """

    def __cinit__(self, Staging staging, database, str name, bint writable=True):
        self.name = name
        self._writable = writable
        self.rebase(database)
        self._staging = staging
        self._rows = OrderedRows.__new__(OrderedRows)
        self._ranges = []
        self._open = True
        self._pid = os.getpid()
        _living.add(self)

    def rebase(self, database):
        """Replace the database by the same one after it was opened again; staged rows stay."""
        if self._writable or self.name in database.namespaces():
            self.base = database.namespace(self.name)
        else:
            self.base = AbsentNamespace(self.name)
        self._base_get = self.base.fast_get
        self.database = database

    @property
    def is_staging(self):
        """True if rows are staged."""
        return bool(self._rows.rows)

    def __repr__(self):
        return f"<StagedNamespace {self.name!r}, {len(self._rows.rows)} rows staged>"

    cdef int _check_open(self) except -1:
        if not self._open:
            if self._pid != os.getpid():
                raise ForkedHandleError(
                    f"the store with namespace {self.name!r} was opened by process {self._pid} "
                    f"and is used in {os.getpid()}, a fork of it; open the state directory in the "
                    "process that uses it"
                )
            raise StoreClosedError(f"the store with namespace {self.name!r} has been closed")
        return 0

    cdef int _check_writable(self) except -1:
        self._check_open()
        if not self._writable:
            raise UnsupportedError(
                f"the state directory was opened with read_only=True; nothing in {self.name!r} "
                "can be written"
            )
        return 0

    cdef int _check_key(self, bytes key) except -1:
        """Refuse a key that the engine would not accept at the commit."""
        if key is None:
            raise TypeError("a key is bytes, not None")
        cdef Py_ssize_t size = len(key)
        if size > self._staging.max_key_bytes:
            raise KeyTooLongError(
                f"the key {key[:16]!r}… has {size} bytes, and the engine accepts at most "
                f"{self._staging.max_key_bytes}, including the bytes that kstore adds for "
                "versions and windows; nothing was written. Use shorter keys or another engine"
            )
        if size == 0 and not self._staging.empty_keys:
            raise UnsupportedError("the engine cannot hold the empty key; nothing was written")
        return 0

    cdef bint _nothing_staged(self) noexcept:
        return not (self._rows.rows or self._ranges)

    cdef void _count(self, long long growth) noexcept:
        self._bytes += growth
        self._staging.staged_bytes += growth

    cpdef object get(self, bytes key):
        """The value of ``key``, staged or stored, or None."""
        if not self._open:
            self._check_open()
        if key is None:
            raise TypeError("a key is bytes, not None")
        if not self._nothing_staged():
            value = self._rows.rows.get(key, _MISSING)
            if value is not _MISSING:
                return value
            if self._ranges and in_ranges(self._ranges, key):
                return None
        try:
            return self._base_get(key)
        except Exception:
            # The short way explains nothing; the long way meets the same fault and does.
            return self.base.get(key)

    def get_many(self, list keys not None):
        """The values of ``keys``, in their order; None for a key without a value."""
        self._check_open()
        cdef dict rows = self._rows.rows
        cdef list values = [rows.get(key, _MISSING) for key in keys]
        cdef list missing = []
        cdef Py_ssize_t index
        for index in range(len(keys)):
            if values[index] is _MISSING:
                if self._ranges and in_ranges(self._ranges, <bytes>keys[index]):
                    values[index] = None
                else:
                    missing.append(index)
        if missing:
            missing.sort(key=keys.__getitem__)
            found = self.base.get_many([keys[index] for index in missing])
            for index, value in zip(missing, found):
                values[index] = value
        return values

    cdef long long _growth(self, bytes key, bytes value) except? -1:
        """The change of the staged bytes if this row is staged."""
        cdef object old = self._rows.rows.get(key, _MISSING)
        cdef long long growth = 0 if value is None else len(value)
        if old is _MISSING:
            return growth + len(key)
        return growth if old is None else growth - len(<bytes>old)

    cpdef object put(self, bytes key, bytes value):
        """Stage ``value`` for ``key``; None deletes."""
        if not (self._open and self._writable):
            self._check_writable()
        self._check_key(key)
        cdef long long growth = self._growth(key, value)
        if self._staging._grow(growth):
            growth = self._growth(key, value)
        self._stage(key, value, growth)

    cdef object look_up(self, bytes key):
        return self.get(key)

    cdef object set_row(self, bytes key, bytes value):
        return self.put(key, value)

    def put_many(self, dict rows not None):
        """Stage the value of each key, None to delete it: all of them, or none without room."""
        self._check_writable()
        self._staging._grow(self._growth_of(rows))
        self._stage_all(rows)

    cdef int _stage(self, bytes key, bytes value, long long growth) except -1:
        """Stage a row, after :meth:`Staging._grow` has made room for it."""
        self._rows.set(key, value)
        self._count(growth)
        self._writes += 1
        return 0

    cdef long long _growth_of(self, dict rows) except? -1:
        """The change of the staged bytes if these rows are staged; raises for an invalid key."""
        cdef bytes key, value
        cdef long long growth = 0
        for key, value in rows.items():
            self._check_key(key)
            growth += self._growth(key, value)
        return growth

    cdef int _stage_all(self, dict rows) except -1:
        """Stage checked rows, after :meth:`Staging._grow` has made room for them."""
        for key, value in rows.items():
            self._stage(<bytes>key, <bytes>value, self._growth(<bytes>key, <bytes>value))
        return 0

    def delete_range(self, bytes lo not None, bytes hi):
        """Stage the deletion of ``lo <= key < hi``; ``hi`` None reaches to the end."""
        self._check_writable()
        cdef list doomed = []
        cdef OrderedRows rows = self._rows
        for keys, _ in rows.view().scan(lo, hi):
            doomed += keys
        for key in doomed:
            value = self._rows.rows[key]
            self._count(-len(<bytes>key) - (0 if value is None else len(<bytes>value)))
            self._rows.unset(key)
        # The new range replaces the ranges that it contains.
        self._ranges = [
            pair
            for pair in self._ranges
            if pair[0] < lo or (hi is not None and (pair[1] is None or pair[1] > hi))
        ]
        self._ranges.append((lo, hi))
        self._writes += 1

    def scan(self, bytes lo=None, bytes hi=None, *, bint reverse=False):
        """Chunks of the rows with ``lo <= key < hi``, as of this call; staged rows hide stored ones."""
        self._check_open()
        cdef unsigned long long takes
        cdef OrderedRows rows
        if self._nothing_staged():
            return self.base.scan(lo, hi, reverse=reverse)
        while True:
            takes = self._takes
            ranges = tuple(self._ranges)
            rows = self._rows  # kept: a commit of another thread puts others in its place
            upper = rows.view().scan(lo, hi, reverse)
            lower = self.base.scan(lo, hi, reverse=reverse)
            if takes == self._takes:
                return MergedScan(upper, lower, ranges, reverse)
            # A commit began in between, and may have written what was staged after the view.
            close_chunks(lower)

    cdef tuple _start(self, bytes lo, bytes hi, bint reverse):
        """The first chunk of a scan, or None, and a scan of the rest, or None."""
        self._check_open()
        if self._nothing_staged():
            return self.base.start(lo, hi, reverse=reverse)
        chunks = self.scan(lo, hi, reverse=reverse)
        chunk = next(chunks, None)
        return chunk, None if chunk is None else chunks

    cdef list _starts(self, list ranges, bint reverse):
        """The starts of all ranges, as of one point in time; None if rows are staged."""
        self._check_open()
        return self.base.starts(ranges, reverse=reverse) if self._nothing_staged() else None

    def first(self, bytes lo=None, bytes hi=None, *, bint reverse=False):
        """The first row of a scan, or None if it is empty."""
        self._check_open()
        if self._nothing_staged():
            return self.base.first(lo, hi, reverse=reverse)
        for keys, values in self.scan(lo, hi, reverse=reverse):
            return keys[0], values[0]
        return None

    def load(self, chunks):
        """Bulk load ascending rows into the engine, past the staging. Staged rows hide loaded ones."""
        self._check_writable()
        return self.database.load(self.name, chunks)

    def approximate_count(self):
        """The approximate number of rows: the stored rows plus the staged ones."""
        self._check_open()
        cdef Py_ssize_t staged = 0
        for value in self._rows.rows.values():
            staged += 1 if value is not None else 0
        return self.base.approximate_count() + staged

    cdef tuple _take(self):
        """The staged keys and values, sorted by key, and the deleted ranges."""
        cdef OrderedRows rows = self._rows
        self._staged_writes = self._writes
        self._takes += 1
        keys, values = rows.items()
        return keys, values, list(self._ranges)

    def staged(self):
        """The staged rows, sorted, as a :class:`kstore_core.engine.Rows` for a commit."""
        return Rows(*self._take())

    def clear(self, written=None):
        """Remove staged rows. Open scans still return the rows of their start.

        Parameters
        ----------
        written : Rows, optional
            The result of :meth:`staged` that was written to the engine: only these rows are
            removed, not those that another thread has staged since. By default all rows are
            removed.
        """
        if written is None or self._writes == self._staged_writes:
            self._count(-self._bytes)
            self._rows = OrderedRows.__new__(OrderedRows)
            self._ranges = []
            return
        # Compare by identity: an equal range may have been staged since.
        flushed = set(map(id, written.deleted_ranges))
        self._ranges = [pair for pair in self._ranges if id(pair) not in flushed]
        for key, value in zip(written.keys, written.values):
            # A row in a range that was deleted since was put after the deletion, so it stays.
            if self._rows.rows.get(key, _MISSING) is value and not in_ranges(self._ranges, key):
                self._count(-len(<bytes>key) - (0 if value is None else len(<bytes>value)))
                self._rows.unset(key)

    def close(self):
        """Discard the staged rows and refuse every further use."""
        if self._open:
            self.clear()
            self._open = False
            # A reference to the store must not keep the handles of the engine open.
            self._base_get = self.base = self.database = None


def reserve(list groups not None):
    """Make room for the rows of several tables, or refuse all of them.

    Parameters
    ----------
    groups : list of (tuple of StagedNamespace, dict)
        The namespaces of a table, and its rows. Rows are put to the first namespace and deleted
        from the others.

    Returns
    -------
    list of int
        The change of the staged bytes by each group, parallel to ``groups``.
    """
    cdef StagedNamespace namespace, first
    cdef long long growth
    cdef list growths = []
    for namespaces, rows in groups:
        first = namespaces[0]
        first._check_writable()
        growth = first._growth_of(rows)
        for namespace in namespaces[1:]:
            growth += namespace._growth_of(dict.fromkeys(rows))
        growths.append(growth)
    if growths:
        first._staging._grow(sum(growths))
    return growths


def take(tuple namespaces not None):
    """The staged rows of several namespaces, all as of one point in time, for a commit.

    If another thread stages rows in two namespaces together, either both or none are returned.

    Parameters
    ----------
    namespaces : tuple of StagedNamespace

    Returns
    -------
    list of Rows
        Parallel to ``namespaces``.

    Raises
    ------
    StoreClosedError
        A namespace has been closed, so its staged rows are lost and offsets must not be committed.
    """
    cdef StagedNamespace namespace
    cdef list taken = []
    cdef bint collecting = PyGC_Disable()
    try:
        # No other thread runs in this loop: it calls no Python code, and the collector is off.
        for namespace in namespaces:
            namespace._check_open()
            taken.append(namespace._take())
    finally:
        if collecting:
            PyGC_Enable()
    return [Rows(*rows) for rows in taken]


_living = weakref.WeakSet()


def _after_fork():
    """Mark the namespaces of the parent process as closed in a forked child."""
    cdef StagedNamespace namespace
    for namespace in list(_living):
        namespace._open = False


os.register_at_fork(after_in_child=_after_fork)
