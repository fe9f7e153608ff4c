# cython: language_level=3
"""The base class of tables with methods for single rows that compiled code can call."""

__all__ = ["PointTable"]


cdef class PointTable:
    """The base class of compiled tables.

    The typed stores read and write single rows of such a table without Python calls.
    """

    @property
    def points(self):
        """The object through which compiled code reads and writes single rows: this table."""
        return self

    cdef object look_up(self, bytes key):
        """Return the value of ``key``, or None if the key is missing."""
        raise NotImplementedError

    cdef object set_row(self, bytes key, bytes value):
        """Write the value of ``key``, or delete the row if ``value`` is None."""
        raise NotImplementedError
