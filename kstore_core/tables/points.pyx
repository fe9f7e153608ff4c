# cython: language_level=3
"""Compiled access to single rows, for the typed edge."""

__all__ = ["PointTable"]


cdef class PointTable:
    """Base of compiled tables whose rows the typed edge reads and writes without Python calls."""

    cdef object look_up(self, bytes key):
        """The value of ``key``, or None."""
        raise NotImplementedError

    cdef object set_row(self, bytes key, bytes value):
        """Set ``key``; None deletes."""
        raise NotImplementedError
