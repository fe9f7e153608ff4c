# cython: language_level=3, freethreading_compatible=True, autotestdict=False, binding=False
# cython: embedsignature=True, embedsignature.format=clinic
"""The class of a key with its window or session."""

cimport cython
from libc.stdint cimport int64_t

from types import GenericAlias

from kstore_core.clock import to_millis


@cython.final
@cython.freelist(256)
cdef class Windowed:
    """A key and its window or session. The object is immutable and is compared by value.

    Parameters
    ----------
    key : object
        The key.
    start, end : int or datetime
        The times in milliseconds since the epoch. The end of a window is exclusive. The end of a
        session is the time of its last record.

    Raises
    ------
    ValueError
        If `start` is negative, or if `end` is less than `start`.
    """

    __match_args__ = ("key", "start", "end")

    def __init__(self, key, start, end):
        if self.made:
            raise TypeError("a Windowed cannot be changed; create a new Windowed")
        self.key = key
        self.start = millis(start)
        self.end = millis(end)
        if self.start < 0:
            raise ValueError(f"a window's start is {self.start}; it must not be negative")
        if self.end < self.start:
            raise ValueError(f"a window's end {self.end} lies before its start {self.start}")
        self.made = True

    def __eq__(self, other):
        cdef Windowed that
        if type(other) is not Windowed:
            return NotImplemented
        that = <Windowed>other
        return self.start == that.start and self.end == that.end and bool(self.key == that.key)

    def __hash__(self):
        return hash((self.key, self.start, self.end))

    def __repr__(self):
        return f"Windowed({self.key!r}, {self.start}, {self.end})"

    def _repr_html_(self):
        from kstore_core.display.reprs import record_html

        return record_html(self)

    def __reduce__(self):
        return Windowed, (self.key, self.start, self.end)

    @classmethod
    def __class_getitem__(cls, item):
        return GenericAlias(cls, item)


cdef int64_t millis(object time) except? -1:
    """Convert a time to milliseconds."""
    if type(time) is int:
        try:
            return time
        except OverflowError:
            pass                                    # to_millis raises a clearer error
    return to_millis(time)


cdef Windowed windowed(object key, int64_t start, int64_t end):
    """Make a Windowed from times that a store contains. The times are not checked."""
    cdef Windowed record = Windowed.__new__(Windowed)
    record.key = key
    record.start = start
    record.end = end
    record.made = True
    return record
