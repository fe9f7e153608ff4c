# cython: language_level=3
"""The row layouts that columns are encoded in."""


cdef struct Layout:
    bint headed                 # starts with varint(H) headers[H]
    bint timed                  # then has ts:i64


cdef int layout_of(object name, Layout *layout) except -1
