# cython: language_level=3
"""Buffers of Arrow columns. The buffers of one table can share large pages of memory."""


cdef class Arena:
    """Inside ``with Arena():``, the columns of this thread share large pages.

    The first access to a page enters the kernel. Pages of 2 MiB need 512 times fewer of these
    accesses than pages of 4 KiB. A thread requests the pages in advance. The memory is freed with
    the last buffer in it.
    """

    cdef void *outer


cdef void *new_buffer(size_t size) noexcept nogil
cdef void free_buffer(void *buffer) noexcept nogil
