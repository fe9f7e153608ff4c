# cython: language_level=3
"""Compiled access to single rows, for the typed stores."""

__all__ = ["PointTable"]


cdef class PointTable:
    """Base of compiled tables whose rows the typed stores read and write without Python calls."""

    cdef object look_up(self, bytes key):
        """The value of ``key``, or None."""
        raise NotImplementedError

    cdef object set_row(self, bytes key, bytes value):
        """Set ``key``; None deletes."""
        raise NotImplementedError
