# cython: language_level=3
"""Functions that prefetch memory, so that the CPU loads many cache lines at the same time."""

from libc.stdint cimport uint8_t

cdef extern from *:
    """
    #if defined(__GNUC__)
    /* Without the empty statement, GCC removes functions that only prefetch. */
    #define kstore_prefetch(address) (__extension__ ({ \\
        __builtin_prefetch(address); __asm__ __volatile__(""); }))
    #else
    #define kstore_prefetch(address) ((void)(address))
    #endif
    """
    void prefetch "kstore_prefetch"(const void *address) noexcept nogil

cdef enum:
    LINE_BYTES = 64             # the size of a cache line on most machines


cdef inline void prefetch_all(const void *begin, const void *end) noexcept nogil:
    """Prefetch each cache line from `begin` to `end` (exclusive). The addresses may be unmapped."""
    cdef const uint8_t *here = <const uint8_t *>begin
    while here < <const uint8_t *>end:
        prefetch(here)
        here += LINE_BYTES
