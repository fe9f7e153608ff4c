# cython: language_level=3
"""The layouts of the stored values to which an Arrow column can be encoded."""


cdef struct Layout:
    bint headed                 # the stored value begins with varint(H) headers[H]
    bint timed                  # ts:i64 precedes the value


cdef int layout_of(object name, Layout *layout) except -1
