# cython: language_level=3
from libc.stdint cimport int64_t, uint8_t

from kstore_core.codec.log.batch.layout cimport Head


cdef Py_ssize_t batch_size(
    const uint8_t *data, Py_ssize_t size, Py_ssize_t at, int64_t position
) except -1
cdef bytes checked_body(
    const uint8_t *data, Py_ssize_t at, Py_ssize_t size, const Head *head, int64_t position
)
