# cython: language_level=3, freethreading_compatible=True, autotestdict=False, binding=False
# cython: embedsignature=True, embedsignature.format=clinic
"""Functions that compute the partition of a key as Kafka's producers do (docs/formats.md)."""

from libc.stdint cimport int32_t

from kstore_core.codec.primitives.buffers cimport View, close_view, open_view


def murmur2(key):
    """Return Kafka's murmur2 hash of a key.

    Parameters
    ----------
    key : bytes-like

    Returns
    -------
    int
        The hash as a signed integer of 32 bits.
    """
    cdef View view
    open_view(key, &view)
    try:
        return <int32_t>murmur2_hash(view.data, view.size)
    finally:
        close_view(&view)


def partition(key, Py_ssize_t n):
    """Return the partition of a key, as Kafka's default partitioner computes it.

    Parameters
    ----------
    key : bytes-like
        The key. It cannot be None, because a record without a key may go to any partition.
    n : int
        The number of partitions, at least 1.

    Returns
    -------
    int
        The partition, from 0 to `n` - 1.

    Raises
    ------
    ValueError
        If `n` is less than 1.
    """
    cdef View view
    if n < 1:
        raise ValueError(f"partition: n must be at least 1, not {n}")
    open_view(key, &view)
    try:
        return (murmur2_hash(view.data, view.size) & 0x7FFFFFFF) % n
    finally:
        close_view(&view)
