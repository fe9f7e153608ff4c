# cython: language_level=3, freethreading_compatible=True, autotestdict=False, binding=False
# cython: embedsignature=True, embedsignature.format=clinic
"""The partition of a key, as Kafka's producers compute it (docs/formats.md, Partitions)."""

from libc.stdint cimport int32_t

from kstore_core.codec.primitives.buffers cimport View, close_view, open_view


def murmur2(key):
    """The murmur2 hash of a key's bytes.

    Parameters
    ----------
    key : bytes-like

    Returns
    -------
    int
        Signed, 32 bits.
    """
    cdef View view
    open_view(key, &view)
    try:
        return <int32_t>murmur2_hash(view.data, view.size)
    finally:
        close_view(&view)


def partition(key, Py_ssize_t n):
    """The partition, out of `n`, that Kafka's default partitioner gives a key's bytes.

    Parameters
    ----------
    key : bytes-like
        Never None: a record without a key has no partition of its own.
    n : int
        The number of partitions, at least 1.

    Returns
    -------
    int
        From 0 to `n` - 1.

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
