# cython: language_level=3

cdef class Headers:
    cdef bytes _source          # contains the encoded headers; None after a change
    cdef Py_ssize_t _start      # their position in it
    cdef Py_ssize_t _size
    cdef tuple _items           # of Header; None until decoded
    cdef bint _read_only

    cdef tuple items(self)
    cdef tuple locked_items(self)
    cdef bytes locked_source(self)
    cdef int refuse_if_read_only(self, str what) except -1


cdef Headers lazy_headers(bytes source, Py_ssize_t start, Py_ssize_t size)
cdef Headers as_headers(object headers)
cdef int refuse_mapping(object pairs) except -1
