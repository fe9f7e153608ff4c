# cython: language_level=3
"""The staged rows: rows in memory that are written but not committed.

Every write to a state directory is staged first. A read looks for a staged row before it reads the
engine. A commit sorts all staged rows of a database and writes them in one batch. If a write would
exceed the limit of staged bytes, a transactional state refuses the write. Any other state spills
the staged rows: it writes them to the engine before the commit, without offsets.
"""

import os
import sys
import weakref

from cpython.bytes cimport PyBytes_GET_SIZE

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
from kstore_core.engine.bytes_map cimport BytesMap
from kstore_core.engine.ordered cimport OrderedRows, PyGC_Disable, PyGC_Enable, close_chunks

__all__ = ["AbsentNamespace", "StagedNamespace", "Staging", "reserve", "take"]

cdef object _MISSING = object()


cdef long long _size_of(bytes key, bytes value) noexcept:
    """Return the bytes of a new row. The value of a deletion is None."""
    return PyBytes_GET_SIZE(key) + (0 if value is None else PyBytes_GET_SIZE(value))


cdef long long _growth_over(object old, bytes key, bytes value) noexcept:
    """Return the bytes that a row adds if it replaces ``old``; ``_MISSING`` means no old row."""
    cdef long long size = _size_of(key, value)
    if old is _MISSING:
        return size
    return size - _size_of(key, <bytes>old)


cdef class Staging:
    """The limit of the staged bytes of one state directory.

    Parameters
    ----------
    max_bytes : int
        The maximum total size of all staged keys and values, in bytes; no limit if negative.
    transactional : bool
        If True, refuse a write beyond the limit. If False, spill the staged rows.
    max_key_bytes : int, optional
        The size of the longest key that the engine accepts, in bytes; no limit if None.
    empty_keys : bool
        True if the engine accepts an empty key.

    Attributes
    ----------
    owner : callable or None
        A function that returns the state directory, or None after the garbage collection of the
        state directory. Each scan keeps a reference to the state directory until the scan ends.
    stores : list
        The open stores. The method ``spill()`` of a store writes its staged rows to the engine.
    staged_bytes : int
        The total size of all keys and values that are staged or cached now, in bytes. It includes
        the memory of restored records whose rows are not written yet.
    admitted : int
        The number of threads that are flushing a cache or writing restored records. The limit does
        not apply meanwhile, because these rows were counted when they were cached or restored.
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
        """Make room for ``size`` more bytes. Return True if staged rows were spilled for this."""
        if not self._has_room(size):
            if self.transactional:
                raise UncommittedLimitError(
                    f"{self.staged_bytes + size} uncommitted bytes exceed uncommitted_max_bytes="
                    f"{self.max_bytes}; the last write was not made. Commit and repeat the write, or raise "
                    "the limit"
                )
            if self.staged_bytes > 0:
                self.spill()
                return 1
        return 0

    cdef int spill_for(self, long long size) except -1:
        """Spill if ``size`` more bytes do not fit. Do nothing in a transactional state."""
        return 0 if self.transactional else self._grow(size)

    def count(self, long long growth):
        """Add ``growth`` bytes, which may be negative, to the staged bytes."""
        self.staged_bytes += growth

    def has_room(self, long long size):
        """Return True if ``size`` more bytes can be staged without a spill or an error."""
        return self._has_room(size)

    def relieve(self):
        """Spill the staged rows if they exceed the limit. Do nothing in a transactional state."""
        if not (self._has_room(1) or self.transactional):
            self.spill()

    def spill(self):
        """Write the staged rows of every store to the engine, without offsets.

        Spilled rows are as durable as committed rows, even if no commit follows.
        """
        for store in self.stores:
            store.spill()
        self.spills += 1


class AbsentNamespace(Namespace):
    """An empty namespace that replaces a missing namespace of a read-only database."""

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
    """One namespace of a database, together with its staged rows.

    Parameters
    ----------
    staging : Staging
        The limit of the staged bytes of the state directory.
    database : kstore_core.engine.Database
    name : str
        The name of the namespace.
    writable : bool
        If True, create a missing namespace. If False, refuse writes, and treat a missing namespace
        as empty.
    """

    def __cinit__(self, Staging staging, database, str name, bint writable=True):
        self.name = name
        self._writable = writable
        self.rebase(database)
        self._staging = staging
        self._rows = OrderedRows.__new__(OrderedRows, True)
        self._ranges = []
        self._ready = True
        self._closed = False
        self._deferred = None
        self._pid = os.getpid()
        _living.add(self)

    def rebase(self, database):
        """Use a reopened database in place of the closed one. Staged rows do not change."""
        if self._writable or self.name in database.namespaces():
            self.base = database.namespace(self.name)
        else:
            self.base = AbsentNamespace(self.name)
        self._base_get = self.base.fast_get
        self.database = database

    @property
    def staging(self):
        """The limit of the staged bytes of the state directory."""
        return self._staging

    @property
    def is_staging(self):
        """True if rows are staged."""
        return self._rows.table.count > 0

    def __repr__(self):
        return f"<StagedNamespace {self.name!r}, {len(self._rows)} rows staged>"

    def defer(self, deferred not None):
        """Defer rows until the next use of the namespace, which calls ``deferred.settle()``.

        Until :meth:`resume`, every use of the namespace first calls ``settle()``, in any thread. So
        ``settle()`` must wait while another thread writes the rows. In the thread that writes the
        rows, ``settle()`` must return at once. If ``settle()`` fails, the next use calls it again.
        """
        while True:
            self._check_writable()
            if self._deferred is None:  # otherwise another thread has just deferred other rows
                break
        self._deferred = deferred
        self._ready = False

    @property
    def deferred(self):
        """The rows that are deferred until the next use of the namespace; None if there are none.

        Raise an error if the namespace is closed, also in a fork.
        """
        self._check_not_closed()
        return self._deferred

    def resume(self):
        """End :meth:`defer`. All later uses see the rows that ``settle()`` has written."""
        self._deferred = None
        self._ready = not self._closed

    def settle(self):
        """Write the deferred rows, if there are any."""
        self._check_open()

    cdef int _check_open(self) except -1:
        if not self._ready:
            self._check_not_closed()
            if self._deferred is not None:
                self._deferred.settle()
                self._check_not_closed()  # Another thread may have closed it meanwhile.
        return 0

    cdef int _check_not_closed(self) except -1:
        if self._closed:
            if self._pid != os.getpid():
                raise ForkedHandleError(
                    f"the store with the namespace {self.name!r} was opened by the process "
                    f"{self._pid}, so its fork {os.getpid()} cannot use it. Open the state directory "
                    "in the process that uses it"
                )
            raise StoreClosedError(f"the store with the namespace {self.name!r} has been closed")
        return 0

    cdef int _check_writable(self) except -1:
        self._check_open()
        if not self._writable:
            raise UnsupportedError(
                f"cannot write to the namespace {self.name!r}, because the state directory was "
                "opened with read_only=True"
            )
        return 0

    cdef int _check_key(self, bytes key) except -1:
        """Raise an error for a key that the engine would refuse at the commit."""
        if key is None:
            raise TypeError("a key must be bytes, not None")
        cdef Py_ssize_t size = len(key)
        if size > self._staging.max_key_bytes:
            raise KeyTooLongError(
                f"the key {key[:16]!r}… has {size} bytes, but the engine accepts at most "
                f"{self._staging.max_key_bytes}, including the bytes that kstore adds for "
                "versions and windows. Nothing was written. Use shorter keys or another engine"
            )
        if size == 0 and not self._staging.empty_keys:
            raise UnsupportedError(
                "the key is empty, but the engine cannot store an empty key. Nothing was written. "
                "Use another key or another engine"
            )
        return 0

    cdef bint _nothing_staged(self) noexcept:
        return self._rows.table.count == 0 and not self._ranges

    cdef void _count(self, long long growth) noexcept:
        self._bytes += growth
        self._staging.staged_bytes += growth

    cpdef object get(self, bytes key):
        """Return the staged or stored value of ``key``, or None if the key is missing."""
        if not self._ready:
            self._check_open()
        if key is None:
            raise TypeError("a key must be bytes, not None")
        if not self._nothing_staged():
            value = self._rows.table.get_or(key, _MISSING)
            if value is not _MISSING:
                return value
            if self._ranges and in_ranges(self._ranges, key):
                return None
        try:
            return self._base_get(key)
        except Exception:
            # The error of the fast function explains nothing. The slow function finds the same
            # fault and raises an error that explains it.
            return self.base.get(key)

    def get_many(self, list keys not None):
        """Return the values of ``keys`` in the order of ``keys``; None for a missing key."""
        self._check_open()
        cdef BytesMap rows = self._rows.table
        cdef list values = [rows.get_or(<bytes?>key, _MISSING) for key in keys]
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
        """Return the change in the staged size, in bytes, that this row would make."""
        return _growth_over(self._rows.table.get_or(key, _MISSING), key, value)

    cpdef object put(self, bytes key, bytes value):
        """Stage ``value`` for ``key``, or the deletion of the key if ``value`` is None."""
        if not (self._ready and self._writable):
            self._check_writable()
        self._check_key(key)
        if not self._staging._has_room(_size_of(key, value)):  # not even if the row is new
            self._staging._grow(self._growth(key, value))
        self._stage(key, value)

    cdef object look_up(self, bytes key):
        return self.get(key)

    cdef object set_row(self, bytes key, bytes value):
        return self.put(key, value)

    def put_many(self, dict rows not None):
        """Stage the value of each key, or the deletion of the key if the value is None.

        If staging has no room for all rows, or a key is invalid, no row is staged.
        """
        self.put_dict(rows)

    cdef int put_dict(self, dict rows) except -1:
        """Stage rows; the C form of :meth:`put_many`."""
        self.make_room(rows)
        return self._stage_all(rows)

    cdef int make_room(self, dict rows) except -1:
        """Check rows, and make room for them. Return 1 if staged rows were spilled for this."""
        cdef bytes key, value
        cdef long long size = 0
        self._check_writable()
        for key, value in rows.items():
            self._check_key(key)
            size += _size_of(key, value)
        if self._staging._has_room(size):  # even if all rows are new
            return 0
        return self._staging._grow(self._growth_of(rows))

    def put_columns(self, list keys not None, list values not None):
        """Stage rows from two lists of the same length, like :meth:`put_many`."""
        cdef Py_ssize_t i
        cdef bytes key, value
        cdef long long growth = 0
        if len(keys) != len(values):
            raise ValueError(f"there are {len(keys)} keys but {len(values)} values")
        self._check_writable()
        for key, value in zip(keys, values):
            self._check_key(key)
            growth += _size_of(key, value)
        if not self._staging._has_room(growth):  # not even if all rows are new
            growth = 0
            for key, value in zip(keys, values):
                growth += self._growth(key, value)
            self._staging._grow(growth)
        for i in range(len(keys)):
            self._stage(<bytes>keys[i], <bytes>values[i])

    cdef int _stage(self, bytes key, bytes value) except -1:
        """Stage a row, after :meth:`Staging._grow` has made room for it."""
        self._count(_growth_over(self._rows.swap(key, value, _MISSING), key, value))
        self._writes += 1
        return 0

    cdef long long _growth_of(self, dict rows) except? -1:
        """Return the change in the staged size, in bytes. Raise an error for an invalid key."""
        cdef bytes key, value
        cdef long long growth = 0
        for key, value in rows.items():
            self._check_key(key)
            growth += self._growth(key, value)
        return growth

    cdef int _stage_all(self, dict rows) except -1:
        """Stage checked rows, after :meth:`Staging._grow` has made room for them."""
        for key, value in rows.items():
            self._stage(<bytes>key, <bytes>value)
        return 0

    def delete_range(self, bytes lo not None, bytes hi):
        """Stage the deletion of the rows with ``lo <= key < hi``. None means no upper limit."""
        self._check_writable()
        cdef list doomed = []
        cdef OrderedRows rows = self._rows
        for keys, _ in rows.view().scan(lo, hi):
            doomed += keys
        for key in doomed:
            value = self._rows.table.get(key)
            self._count(-len(<bytes>key) - (0 if value is None else len(<bytes>value)))
            self._rows.unset(key)
        # The new range makes the staged ranges within it unnecessary.
        self._ranges = [
            pair
            for pair in self._ranges
            if pair[0] < lo or (hi is not None and (pair[1] is None or pair[1] > hi))
        ]
        self._ranges.append((lo, hi))
        self._writes += 1

    def scan(self, bytes lo=None, bytes hi=None, *, bint reverse=False):
        """Return chunks of the rows with ``lo <= key < hi``, as of the time of this call.

        A staged row hides the stored row with its key.
        """
        self._check_open()
        cdef unsigned long long takes
        cdef OrderedRows rows
        if self._nothing_staged():
            return self.base.scan(lo, hi, reverse=reverse)
        while True:
            takes = self._takes
            ranges = tuple(self._ranges)
            rows = self._rows  # A commit of another thread may replace self._rows meanwhile.
            upper = rows.view().scan(lo, hi, reverse)
            lower = self.base.scan(lo, hi, reverse=reverse)
            if takes == self._takes:
                return MergedScan(upper, lower, ranges, reverse)
            # A commit began between the two reads, so the stored rows may be newer than the view.
            close_chunks(lower)

    cdef tuple _start(self, bytes lo, bytes hi, bint reverse):
        """Return the first chunk of a scan, and an iterator of the rest. An empty part is None."""
        self._check_open()
        if self._nothing_staged():
            return self.base.start(lo, hi, reverse=reverse)
        chunks = self.scan(lo, hi, reverse=reverse)
        chunk = next(chunks, None)
        return chunk, None if chunk is None else chunks

    cdef list _starts(self, list ranges, bint reverse):
        """Return the result of ``_start`` for each range, all read from one snapshot.

        Return None if rows are staged, or if the engine has no faster way to read them together.
        """
        self._check_open()
        return self.base.starts(ranges, reverse=reverse) if self._nothing_staged() else None

    def first(self, bytes lo=None, bytes hi=None, *, bint reverse=False):
        """Return the first row that a scan would yield, or None if there is no row."""
        self._check_open()
        if self._nothing_staged():
            return self.base.first(lo, hi, reverse=reverse)
        for keys, values in self.scan(lo, hi, reverse=reverse):
            return keys[0], values[0]
        return None

    def load(self, chunks):
        """Load ascending rows directly into the engine, and return their number.

        A staged row hides a loaded row with its key.
        """
        self._check_writable()
        return self.database.load(self.name, chunks)

    def approximate_count(self):
        """Return the approximate number of stored rows plus the number of staged values."""
        self._check_open()
        return self.base.approximate_count() + self._rows.table.count_values()

    cdef tuple _take(self):
        """Return the staged keys and values, sorted by key, and the deleted ranges."""
        cdef OrderedRows rows = self._rows
        self._staged_writes = self._writes
        self._takes += 1
        keys, values = rows.items()
        return keys, values, list(self._ranges)

    def staged(self):
        """Return the staged rows as a sorted :class:`kstore_core.engine.Rows` for a commit."""
        return Rows(*self._take())

    def clear(self, written=None):
        """Remove staged rows. Open scans still return these rows.

        Parameters
        ----------
        written : Rows, optional
            The rows to remove: the result of :meth:`staged`, which a commit has written to the
            engine. Rows that another thread has staged since are not removed. If None, all rows are
            removed.
        """
        if written is None and self._deferred is not None:
            self._deferred.discard()
            self.resume()
        # An allocation may start the garbage collector, whose finalizers let other threads run. So
        # nothing is allocated or freed between the test and the exchange of the rows.
        cdef OrderedRows empty = OrderedRows.__new__(OrderedRows, True)
        cdef list no_ranges = []
        cdef tuple former = (self._rows, self._ranges)
        if written is None or self._writes == self._staged_writes:
            self._count(-self._bytes)
            self._rows = empty
            self._ranges = no_ranges
            return
        # Compare by identity, because an equal range may have been staged since.
        flushed = set(map(id, written.deleted_ranges))
        self._ranges = [pair for pair in self._ranges if id(pair) not in flushed]
        for key, value in zip(written.keys, written.values):
            # A range deletion removes the staged rows of its range. So a row in a range that is
            # staged now was put after the deletion, and must stay.
            if self._rows.table.get_or(key, _MISSING) is value and not in_ranges(self._ranges, key):
                self._count(-len(<bytes>key) - (0 if value is None else len(<bytes>value)))
                self._rows.unset(key)

    def close(self):
        """Discard the staged rows, and make every later use raise StoreClosedError."""
        if not self._closed:
            self.clear()
            self._closed = True
            self._ready = False
            # References to the store may remain, so release the handles of the engine now.
            self._base_get = self.base = self.database = None


def reserve(list groups not None):
    """Make room in staging for the rows of several tables. Raise an error if they do not all fit.

    Parameters
    ----------
    groups : list of (tuple of StagedNamespace, dict)
        The namespaces of each table, and the rows to write to it. A write stages the rows in the
        first namespace, and deletes their keys from the other namespaces of the table.

    Returns
    -------
    list of int
        The change in the staged size, in bytes, that the rows of each group make.
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
    """Return the staged rows of several namespaces for a commit, all as of one point in time.

    If another thread stages rows in two namespaces together, the result contains either all of
    these rows or none of them.

    Parameters
    ----------
    namespaces : tuple of StagedNamespace

    Returns
    -------
    list of Rows
        The staged rows of each namespace, in the order of ``namespaces``.

    Raises
    ------
    StoreClosedError
        A namespace has been closed, so its staged rows are lost. The caller must commit no offsets.
    """
    cdef StagedNamespace namespace
    cdef list taken = []
    cdef bint collecting = PyGC_Disable()
    try:
        # No other thread can run during this loop, because the loop calls no Python code and the
        # garbage collector is off.
        for namespace in namespaces:
            namespace._check_not_closed()
            taken.append(namespace._take())
    finally:
        if collecting:
            PyGC_Enable()
    return [Rows(*rows) for rows in taken]


_living = weakref.WeakSet()


def _after_fork():
    """In a forked child, mark all namespaces that the parent process opened as closed."""
    cdef StagedNamespace namespace
    for namespace in list(_living):
        namespace._closed = True
        namespace._ready = False


os.register_at_fork(after_in_child=_after_fork)
