# cython: language_level=3
"""The iterator that every read of a range returns. It reads a chunk of rows when it needs one."""

from kstore_core.engine.ordered cimport close_chunks
from kstore_core.errors import StoreClosedError
from kstore_core.tables.staging cimport StagedNamespace

__all__ = ["Scan"]


cdef class Scan:
    """An iterator of ``(key, value)`` items, and a context manager.

    A scan returns rows in key order, and returns them as they were when the scan was created. It
    reads one chunk of rows at a time. A scan that is closed, or read to its end, releases the
    engine's iterator.

    Parameters
    ----------
    rows : StagedNamespace
        The namespace of the rows. Once it is closed, the scan raises StoreClosedError.
    chunks : iterator of (keys, values), or None
        The chunks of rows; the scan is empty if None.
    item : callable
        Converts a row to an item: ``item(key, value)``.
    table : callable
        Converts the remaining rows to a ``pyarrow.Table``: ``table(keys, values)``.
    """

    def __cinit__(self, StagedNamespace rows, chunks, item, table):
        self._rows = rows
        self._chunks = chunks
        self._item = item
        self._table = table
        self._at = 0
        self._size = 0
        self._open = True
        owner = rows._staging.owner
        if owner is not None:
            self._state = owner()

    def __reduce_ex__(self, _):
        raise TypeError(
            f"a scan of namespace {self._rows.name!r} cannot be pickled or copied: it reads the "
            "store that is open in this process. Pickle the list of its items, or the store's spec and "
            "the path of its state directory, and scan it there"
        )

    def __iter__(self):
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    cdef bint _more(self) except -1:
        """Return True if the scan has another row. Read the next chunk if necessary."""
        if not self._open:
            raise StoreClosedError(f"this scan of namespace {self._rows.name!r} has been closed")
        if self._chunks is None and self._at == self._size:
            return False  # Do not raise if the end of the scan has closed the store.
        self._rows._check_open()
        while self._at == self._size:
            if self._chunks is None:
                return False
            chunk = next(self._chunks, None)
            if chunk is None:
                self._release()
                return False
            self._keys, self._values = chunk
            self._at = 0
            self._size = len(self._keys)
        return True

    def __next__(self):
        cdef Py_ssize_t at
        if not self._more():
            raise StopIteration
        at = self._at
        self._at = at + 1
        return self._item(self._keys[at], self._values[at])

    def peek(self):
        """Return the next item and leave it in the scan, so that ``next`` returns it again.

        Raises
        ------
        StopIteration
            The scan has no more items.
        """
        if not self._more():
            raise StopIteration("the scan is at its end")
        return self._item(self._keys[self._at], self._values[self._at])

    def to_arrow(self):
        """Return the remaining items as a ``pyarrow.Table``. Its first column is the key."""
        cdef list keys = [], values = []
        while self._more():
            keys += self._keys[self._at :]
            values += self._values[self._at :]
            self._at = self._size
        return self._table(keys, values)

    def close(self):
        """Release the engine's iterator. A second close does nothing."""
        if self._open:
            self._open = False
            self._release()
            self._keys = self._values = None
            self._at = self._size = 0

    def watch(self, watched):
        """Keep a reference to an object until this scan ends or is closed."""
        self._watched = watched if self._watched is None else (self._watched, watched)

    cdef int _release(self) except -1:
        self._watched = None
        chunks, self._chunks = self._chunks, None
        close_chunks(chunks)
        self._state = None
        return 0
