# cython: language_level=3
"""The class `Scan`, the iterator that every read of a range returns."""

from cpython.bytes cimport PyBytes_CheckExact, PyBytes_GET_SIZE

from kstore_core.codec.arrow.arena cimport Arena
from kstore_core.engine.ordered cimport close_chunks
from kstore_core.engine.packed cimport PackedBytes
from kstore_core.errors import StoreClosedError
from kstore_core.tables.staging cimport StagedNamespace

__all__ = ["Scan"]

cdef enum:
    _BATCH_ROWS = 4096              # rows and columns of a batch fit the second-level cache
    _BATCH_BYTES = 32 * 1024 * 1024
    _PACKED_ROWS = 65_536           # no other thread runs while an engine reads packed rows


cdef inline Py_ssize_t size_of(object value) except -1:
    """Return the size in bytes of a stored value, or of the value in a version (its first item)."""
    data = value if PyBytes_CheckExact(value) else (<tuple?>value)[0]
    return PyBytes_GET_SIZE(<bytes?>data)


cdef class Scan:
    """An iterator of ``(key, value)`` items, and a context manager.

    A scan returns rows in key order. Writes after the creation of the scan do not change its
    result. A scan reads one chunk of rows at a time. The scan releases the engine's iterator after
    the last row, or when the scan is closed.

    Parameters
    ----------
    rows : StagedNamespace
        The namespace of the rows. After its close, the scan raises StoreClosedError.
    chunks : iterator of (keys, values), or None
        The chunks of rows. If None, the scan is empty.
    item : callable
        The function ``item(key, value)`` that converts a row to an item.
    table : callable
        The function ``table(keys, values, headers)`` that converts rows to a ``pyarrow.Table``. If
        ``headers`` is False, the table needs no column of headers.
    packed : bool
        True if ``table`` also accepts keys and values as `PackedBytes`. If the engine returns such
        rows, a table is made without an object for each row.
    """

    def __cinit__(self, StagedNamespace rows, chunks, item, table, bint packed=False):
        self._rows = rows
        self._chunks = chunks
        self._item = item
        self._table = table
        self._packed = packed
        self._at = 0
        self._size = 0
        self._open = True
        owner = rows._staging.owner
        if owner is not None:
            self._state = owner()

    def __reduce_ex__(self, _):
        raise TypeError(
            f"a scan of namespace {self._rows.name!r} cannot be pickled or copied, because it reads a "
            "store that is open in this process. Pickle the list of its items instead. Or pickle the "
            "store's spec and the path of the state directory, and scan the store in the other process"
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
            return False  # The store may be closed after the scan has ended. Do not raise then.
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

    def to_arrow(self, *, columns=None):
        """Return the remaining items as a ``pyarrow.Table``.

        Parameters
        ----------
        columns : iterable of str, optional
            The names of the columns to return, in this order. By default the key and all other
            columns are returned. A table without headers takes less time.

        Raises
        ------
        ValueError
            ``columns`` is empty, or contains a name that no column of the scan has.
        """
        import pyarrow as pa

        names = self._names_of(columns)
        tables = []
        with Arena():
            while True:
                self._left = _BATCH_BYTES
                table = self._next_table(_BATCH_ROWS, names)
                if table is None:
                    break
                tables.append(table)
        return pa.concat_tables(tables) if tables else self._empty(names)

    def to_arrow_batches(self, *, max_rows=65_536, columns=None):
        """Iterate over the remaining items as instances of ``pyarrow.RecordBatch``.

        Each batch is read only when the caller asks for it, so only the rows of one batch are in
        memory.

        Parameters
        ----------
        max_rows : int
            The maximum number of rows in a batch. A batch has fewer rows if its stored values
            exceed 32 MiB.
        columns : iterable of str, optional
            The names of the columns, with the same meaning as in :meth:`to_arrow`.

        Raises
        ------
        ValueError
            ``max_rows`` is less than 1, or ``columns`` is not valid (see :meth:`to_arrow`).
        """
        if max_rows < 1:
            raise ValueError(f"max_rows must be at least 1, not {max_rows}")
        return self._batches(max_rows, self._names_of(columns))

    def _batches(self, Py_ssize_t max_rows, names):
        import pyarrow as pa

        cdef Py_ssize_t rows
        while True:
            tables, rows = [], 0
            self._left = _BATCH_BYTES
            while rows < max_rows and self._left > 0:
                table = self._next_table(max_rows - rows, names)
                if table is None:
                    break
                tables.append(table)
                rows += table.num_rows
            if not tables:
                return
            yield from pa.concat_tables(tables).combine_chunks().to_batches()

    cdef object _next_table(self, Py_ssize_t max_rows, names):
        """Return the next rows as a table: at most ``max_rows``, with about ``_left`` bytes of
        values. Return None after the last row.
        """
        cdef bint headers = names is None or "headers" in names
        rows = self._next_packed(max_rows)
        if rows is None:
            rows = self._taken(max_rows)
            if not rows[0]:
                return None
        table = self._table(rows[0], rows[1], headers)
        return table if names is None else table.select(names)

    cdef tuple _next_packed(self, Py_ssize_t max_rows):
        """Return the next keys and values, or None if the scan must read them as a chunk."""
        read = self._packed_reader()
        if read is None:
            return None
        self._rows._check_open()
        found = read(min(max_rows, _PACKED_ROWS), self._left)
        if found is not None:
            self._left -= (<PackedBytes?>found[1]).total()
        return found

    cdef object _packed_reader(self):
        """Return the function of the engine that returns packed rows; None at present."""
        if self._packed and self._open and self._at == self._size:
            return getattr(self._chunks, "packed", None)
        return None

    cdef tuple _taken(self, Py_ssize_t max_rows):
        """Return the next rows as two lists. They end where the engine can return packed rows."""
        cdef list keys = [], values = []
        cdef Py_ssize_t begin, end, rows = 0
        while rows < max_rows and self._left > 0 and self._more():
            begin = self._at
            end = min(self._size, begin + max_rows - rows)
            while self._at < end and self._left > 0:
                self._left -= size_of(self._values[self._at])
                self._at += 1
            rows += self._at - begin
            if self._at - begin == self._size:
                keys += self._keys
                values += self._values
            else:
                keys += self._keys[begin : self._at]
                values += self._values[begin : self._at]
            if self._packed_reader() is not None:
                break
        return keys, values

    def _empty(self, names):
        table = self._table([], [], True)
        return table if names is None else table.select(names)

    def _names_of(self, columns):
        """Return the checked names of the columns to return, or None to return all columns."""
        if columns is None:
            return None
        if isinstance(columns, str):
            raise TypeError(f"columns must be a list of names, such as [{columns!r}], not a str")
        names = list(columns)
        known = self._empty(None).column_names
        for name in names:
            if name not in known:
                raise ValueError(
                    f"this scan of namespace {self._rows.name!r} has no column {name!r}; its columns "
                    f"are: {', '.join(known)}"
                )
        if not names:
            raise ValueError(f"columns must not be empty; the columns of this scan are: {', '.join(known)}")
        return names

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
