# cython: language_level=3
from libc.stdint cimport int64_t, uint32_t

from kstore_core.spark.join.version_runs cimport Runs


# One of the indexes of a lookup.
cdef struct Part:
    const Runs *runs
    int64_t base                # the position of the index's first version


cdef struct Parts:
    Part *all
    int64_t count
    int64_t shards


cdef inline const Part *part_of(const Parts *parts, uint32_t hash) noexcept nogil:
    """Return the index of the shard of the keys with this hash."""
    if parts.count == 1:
        return parts.all
    return &parts.all[<int64_t>(hash & 0x7FFFFFFF) % parts.shards % parts.count]


cdef class VersionLookup:
    cdef tuple indexes
    cdef Parts parts
