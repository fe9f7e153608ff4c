cdef class PointTable:
    cdef object look_up(self, bytes key)
    cdef object set_row(self, bytes key, bytes value)
