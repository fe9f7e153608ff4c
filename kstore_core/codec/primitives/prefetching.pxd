# cython: language_level=3
"""Memory asked for before it is needed, so that many misses of the cache are waited for at once."""

from libc.stdint cimport uint8_t

cdef extern from *:
    """
    #if defined(__GNUC__)
    /* The empty statement has GCC keep functions that do nothing else, which it takes for pure. */
    #define kstore_prefetch(address) (__extension__ ({ \\
        __builtin_prefetch(address); __asm__ __volatile__(""); }))
    #else
    #define kstore_prefetch(address) ((void)(address))
    #endif
    """
    void prefetch "kstore_prefetch"(const void *address) noexcept nogil

cdef enum:
    LINE_BYTES = 64             # of a line of the cache, on most machines


cdef inline void prefetch_all(const void *begin, const void *end) noexcept nogil:
    """Every line from `begin` to `end`, exclusive. Addresses that are not there do no harm."""
    cdef const uint8_t *here = <const uint8_t *>begin
    while here < <const uint8_t *>end:
        prefetch(here)
        here += LINE_BYTES
