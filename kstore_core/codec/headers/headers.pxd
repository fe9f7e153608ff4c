# cython: language_level=3

cdef class Headers:
    cdef bytes _source          # bytes that contain the encoded headers; None after a change
    cdef Py_ssize_t _start      # the position of the encoded headers in _source
    cdef Py_ssize_t _size
    cdef tuple _items           # the Header objects; None until decoded
    cdef bint _read_only
    cdef bint _was_encoded      # True after the Header objects were encoded once

    cdef tuple items(self)
    cdef tuple locked_items(self)
    cdef bytes locked_source(self)
    cdef int refuse_if_read_only(self, str what) except -1


cdef Headers lazy_headers(bytes source, Py_ssize_t start, Py_ssize_t size)
cdef Headers as_headers(object headers)
cdef int refuse_mapping(object pairs) except -1
