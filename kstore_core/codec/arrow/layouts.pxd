# cython: language_level=3
"""The layouts of stored values that an Arrow column can be encoded in."""


cdef struct Layout:
    bint headed                 # the stored value begins with varint(H) headers[H]
    bint timed                  # ts:i64 precedes the value


cdef int layout_of(object name, Layout *layout) except -1
