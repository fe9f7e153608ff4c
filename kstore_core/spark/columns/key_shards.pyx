# cython: language_level=3, freethreading_compatible=True, autotestdict=False, binding=False
# cython: embedsignature=True, embedsignature.format=clinic
# cython: boundscheck=False, wraparound=False, cdivision=True
"""A function that computes the shards of a whole Arrow column of keys, by Kafka's murmur2 hash."""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memset

from kstore_core.codec.arrow.input cimport Column, Texts, open_column, text_at, text_valid
from kstore_core.codec.keys.murmur2 cimport murmur2_hash

__all__ = ["put_shards"]


def put_shards(keys, int32_t shards, int32_t[::1] out not None):
    """Write the shard of each key to `out`, as a number from 0 to ``shards - 1``.

    The shard of a null key is 0. `keys` must be an Arrow array of type binary or string, and `out`
    must have as many items as `keys`.
    """
    cdef Column column = open_column(keys, "keys")
    cdef Texts texts
    cdef int64_t i
    cdef Py_ssize_t size = 0
    cdef const uint8_t *data
    memset(&texts, 0, sizeof(Texts))
    column.as_texts(&texts, "keys", True)
    if shards < 1:
        raise ValueError(f"shards={shards} is less than 1; pass 1 or more")
    if out.shape[0] != texts.length:
        raise ValueError(
            f"out has {out.shape[0]} items for {texts.length} keys; pass an array with one item "
            "for each key"
        )
    with nogil:
        for i in range(texts.length):
            if not text_valid(&texts, i):
                out[i] = 0
                continue
            data = text_at(&texts, i, &size)
            out[i] = (murmur2_hash(data, size) & 0x7FFFFFFF) % <int64_t>shards
