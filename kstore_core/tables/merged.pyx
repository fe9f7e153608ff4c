# cython: language_level=3
"""An iterator that merges two sources of rows in key order, for example staged and stored rows."""

from kstore_core.codec.conversions.upgrades import convert_rows
from kstore_core.engine.ordered cimport close_chunks, compare

__all__ = ["MergedScan"]


cdef bint in_ranges(ranges, bytes key) except -1:
    """Return True if ``key`` lies in one of the half-open ranges."""
    for lo, hi in ranges:
        if compare(<bytes>lo, key) <= 0 and (hi is None or compare(key, <bytes>hi) < 0):
            return True
    return False


cdef tuple without_nones(list keys, list values):
    """Return the keys and values of the rows whose value is not None."""
    cdef Py_ssize_t index
    for value in values:
        if value is None:
            break
    else:
        return keys, values
    present = [index for index in range(len(values)) if values[index] is not None]
    return [keys[index] for index in present], [values[index] for index in present]


cdef class MergedScan:
    """An iterator of chunks that merges the rows of an upper and a lower source.

    If both sources have a row for a key, the iterator returns the upper row. If the value of the
    upper row is None, the iterator returns no row for the key. It also skips the lower rows in
    deleted ranges.

    Parameters
    ----------
    upper, lower : iterable of (keys, values)
        The two sources. The keys of each source must be strictly ascending; if ``reverse`` is True,
        strictly descending.
    ranges : tuple of (lo, hi)
        The deleted ranges. Each range hides the lower rows with ``lo <= key < hi``. If ``hi`` is
        None, the range has no upper end.
    reverse : bool
        True if the keys of both sources are in descending order.
    convert : callable, optional
        The function ``convert(key, value)`` that returns the new value of a lower row. It is called
        when the chunk of the row is read.
    """

    def __cinit__(self, upper, lower, tuple ranges, bint reverse, convert=None):
        self._upper = iter(upper)
        self._lower = iter(lower)
        self._ranges = ranges
        self._reverse = reverse
        self._convert = convert
        self._pull_upper()
        self._pull_lower()

    cdef int _pull_upper(self) except -1:
        chunk = next(self._upper, None)
        self._upper_keys, self._upper_values = (None, None) if chunk is None else chunk
        self._upper_at = 0
        return 0

    cdef int _pull_lower(self) except -1:
        chunk = next(self._lower, None)
        self._lower_keys, self._lower_values = (None, None) if chunk is None else chunk
        self._lower_at = 0
        return 0

    def __iter__(self):
        return self

    def __next__(self):
        cdef list keys = [], values = []
        cdef bytes key
        cdef int order
        while not keys:
            if self._upper_keys is None and self._lower_keys is None:
                raise StopIteration
            if self._lower_keys is None:
                keys, values = without_nones(
                    self._upper_keys[self._upper_at :], self._upper_values[self._upper_at :]
                )
                self._pull_upper()
                continue
            if self._upper_keys is None and not self._ranges:
                keys = self._lower_keys[self._lower_at :]
                values = self._lower_values[self._lower_at :]
                if self._convert is not None:
                    values = convert_rows(self._convert, keys, values)
                self._pull_lower()
                continue
            # One output chunk ends where either input's chunk ends.
            while True:
                if self._upper_keys is not None and self._upper_at == len(self._upper_keys):
                    self._pull_upper()
                    break
                if self._lower_at == len(self._lower_keys):
                    self._pull_lower()
                    break
                if self._upper_keys is None:
                    order = 1
                else:
                    order = compare(
                        <bytes>self._upper_keys[self._upper_at],
                        <bytes>self._lower_keys[self._lower_at],
                    )
                    if self._reverse:
                        order = -order
                if order <= 0:
                    if self._upper_values[self._upper_at] is not None:
                        keys.append(self._upper_keys[self._upper_at])
                        values.append(self._upper_values[self._upper_at])
                    self._upper_at += 1
                    if order == 0:
                        self._lower_at += 1
                else:
                    key = <bytes>self._lower_keys[self._lower_at]
                    if not self._ranges or not in_ranges(self._ranges, key):
                        value = self._lower_values[self._lower_at]
                        if self._convert is not None:
                            value = self._convert(key, value)
                        keys.append(key)
                        values.append(value)
                    self._lower_at += 1
        return keys, values

    def close(self):
        """Close both sources."""
        self._upper_keys = None
        self._lower_keys = None
        sources = (self._upper, self._lower)
        self._upper = self._lower = iter(())
        for source in sources:
            close_chunks(source)
