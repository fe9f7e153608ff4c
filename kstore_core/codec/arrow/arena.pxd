# cython: language_level=3
"""Buffers of Arrow columns. Those of one table can share large pages of memory."""


cdef class Arena:
    """Inside ``with Arena():``, the columns of this thread share large pages.

    A first touch of a page enters the kernel. With pages of 2 MiB instead of 4 KiB this happens 512
    times less often. The memory is freed when no buffer in it is left.
    """

    cdef void *outer


cdef void *new_buffer(size_t size) noexcept nogil
cdef void free_buffer(void *buffer) noexcept nogil
