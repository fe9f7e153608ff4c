# cython: language_level=3
"""Write RocksDB table files from lists of sorted rows.

The writer of the library ``rocksdict`` needs one call for each row. This writer is faster, and
writes the same format: block-based tables of the format version 5. A file has data blocks with
shared prefixes, a Bloom filter, an index with shortened keys, properties, and an XXH3 checksum in
each block, which RocksDB reads since the version 6.27. Blocks are not compressed. The format is
described at https://github.com/facebook/rocksdb/wiki, pages Rocksdb-BlockBasedTable-Format and
RocksDB-Bloom-Filter.
"""

import random
import struct
import time
from io import FileIO

import xxhash
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy

from kstore_core.engine.packed cimport PackedBytes
from kstore_core.engine.prefetching cimport LINE_BYTES, prefetch_all
from kstore_rocksdb.files.hashes cimport LONGEST_HASHED, filter_hash

__all__ = ["TableWriter"]

cdef extern from "Python.h":
    int PyBUF_READ

cdef enum:
    AHEAD = 8               # rows that are prefetched before they are read
    RESTART_INTERVAL = 16
    FLUSHED_BYTES = 1024 * 1024
    LARGEST_ROW = 0x7FFFFFFF - 65536    # sizes within a block have 32 bits
    TRAILER_BYTES = 5
    FILTER_LINE = 64
    FILTER_METADATA = 5
    LARGEST_FILTER = 0xFFFFFFC0

cdef inline void prefetch_object(PyObject *data) noexcept:
    """Prefetch the first four cache lines of a bytes object."""
    prefetch_all(data, <const uint8_t *>data + 4 * LINE_BYTES)


cdef enum RowType:
    DELETION = 0
    VALUE = 1

_COMPARATOR = b"leveldb.BytewiseComparator"
_FILTER_POLICY = b"rocksdb.BuiltinBloomFilter"
_MAGIC = 0x88E241B785F4CFF7
_FORMAT_VERSION = 5
_XXH3 = 4
_EXTERNAL_VERSION = 2
_LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"


# ---------------------------------------------------------------- memory

cdef struct Buffer:
    uint8_t *data
    size_t size
    size_t room


cdef inline uint8_t *more(Buffer *buffer, size_t size) except NULL:
    """Enlarge a buffer for ``size`` more bytes if necessary, and return the address of its end."""
    cdef size_t room
    cdef void *data
    if buffer.room - buffer.size < size:
        room = max(2 * buffer.room, buffer.size + size, 4096)
        data = realloc(buffer.data, room)
        if data is NULL:
            raise MemoryError(f"cannot allocate {room} bytes of memory for a table file")
        buffer.data, buffer.room = <uint8_t *>data, room
    return buffer.data + buffer.size


cdef inline uint8_t *put_varint(uint8_t *here, uint64_t number) noexcept:
    while number >= 0x80:
        here[0] = <uint8_t>(number | 0x80)
        here += 1
        number >>= 7
    here[0] = <uint8_t>number
    return here + 1


cdef inline uint8_t *put_u32(uint8_t *here, uint32_t number) noexcept:
    cdef int i
    for i in range(4):
        here[i] = <uint8_t>(number >> (8 * i))
    return here + 4


cdef inline uint8_t *put_row_type(uint8_t *here, RowType kind) noexcept:
    """Write the last 8 bytes of a key in a data block: the row's type and the sequence number 0.

    Return the address after these bytes.
    """
    cdef int i
    here[0] = <uint8_t>kind
    for i in range(1, 8):
        here[i] = 0
    return here + 8


cdef bytes varint(uint64_t number):
    cdef uint8_t here[10]
    return (<char *>here)[: put_varint(here, number) - here]


# ---------------------------------------------------------------- blocks

cdef inline size_t shared_prefix(
    const uint8_t *one, size_t one_size, const uint8_t *other, size_t other_size
) noexcept:
    cdef size_t least = min(one_size, other_size)
    cdef size_t i = 0
    while i < least and one[i] == other[i]:
        i += 1
    return i


cdef bytes separator(bytes last, bytes first):
    """Return a short key ``k`` with ``last <= k < first``."""
    cdef size_t at = shared_prefix(
        <const uint8_t *>PyBytes_AS_STRING(last), PyBytes_GET_SIZE(last),
        <const uint8_t *>PyBytes_AS_STRING(first), PyBytes_GET_SIZE(first),
    )
    if at + 1 < <size_t>PyBytes_GET_SIZE(last) and last[at] + 1 < first[at]:
        return last[:at] + bytes([last[at] + 1])
    return last


cdef int small_block(Buffer *out, list rows, int interval) except -1:
    """Append the contents of a block with sorted rows ``(key, value)``."""
    cdef size_t begin = out.size
    cdef list restarts = []
    cdef bytes last = b"", key, value
    cdef size_t shared
    cdef Py_ssize_t i
    for i, (key, value) in enumerate(rows):
        shared = 0
        if i % interval == 0:
            restarts.append(out.size - begin)
        else:
            shared = shared_prefix(
                <const uint8_t *>PyBytes_AS_STRING(last), len(last),
                <const uint8_t *>PyBytes_AS_STRING(key), len(key),
            )
        append(out, varint(shared) + varint(len(key) - shared) + varint(len(value)))
        append(out, key[shared:] + value)
        last = key
    append(out, struct.pack(f"<{len(restarts) + 1}I", *restarts, len(restarts)))
    return 0


cdef int append(Buffer *out, bytes data) except -1:
    memcpy(more(out, len(data)), PyBytes_AS_STRING(data), len(data))
    out.size += len(data)
    return 0


# ---------------------------------------------------------------- files

cdef class TableWriter:
    """A writer of one table file.

    Parameters
    ----------
    path : str
        The path of the file, which must not exist.
    block_size : int
        The size in bytes at which a data block ends.
    bloom_bits : int
        The number of bits per key in the Bloom filter; no filter if 0. If a key has more than 240
        bytes, the file has no filter until RocksDB compacts it.

    Attributes
    ----------
    rows : int
        The number of rows that were added so far.
    size : int
        The size of the finished blocks in bytes.
    """

    cdef readonly uint64_t rows
    cdef object file
    cdef Buffer out             # the finished blocks and the current block
    cdef Buffer restarts        # positions in the current block, 32 bits each
    cdef Buffer index
    cdef Buffer index_restarts
    cdef Buffer hashes          # the hashes of all keys, 64 bits each; empty without a filter
    cdef uint64_t flushed       # the number of bytes that were written to the file
    cdef size_t begin           # the position in `out` at which the current block begins
    cdef size_t block_size
    cdef int bloom_bits
    cdef bint filtered
    cdef int counter            # the number of rows since the last restart
    cdef const uint8_t *last    # the last key; NULL before the first row
    cdef size_t last_size
    cdef bytes last_key         # a copy of the last key, because the caller may free its rows
    cdef bytes pending          # the last key of a finished block that is not in the index yet
    cdef uint64_t pending_at
    cdef uint64_t pending_size
    cdef uint64_t blocks
    cdef uint64_t deletions
    cdef uint64_t key_bytes
    cdef uint64_t value_bytes

    def __init__(self, str path, *, size_t block_size=4096, int bloom_bits=10):
        self.file = FileIO(path, "xb")
        self.block_size = block_size
        self.bloom_bits = bloom_bits
        self.filtered = bloom_bits > 0

    def __dealloc__(self):
        free(self.out.data)
        free(self.restarts.data)
        free(self.index.data)
        free(self.index_restarts.data)
        free(self.hashes.data)

    @property
    def size(self):
        return self.flushed + self.begin

    def add(self, keys, values, *, bint deletions=False):
        """Append rows. If this method raises an error, the file must not be finished.

        Parameters
        ----------
        keys : sequence of bytes
            The keys, strictly ascending. The first key must follow the last key of the earlier
            rows.
        values : sequence of bytes or None
            The value of each key.
        deletions : bool
            If True, a value of None deletes its key. If False, it raises TypeError.

        Raises
        ------
        TypeError
            A key or value is not bytes.
        ValueError
            The keys are not strictly ascending, the lists differ in length, or a row is too large.
        """
        if len(values) != len(keys):
            raise ValueError(f"a chunk has {len(keys)} keys but {len(values)} values")
        try:
            if isinstance(keys, PackedBytes) and isinstance(values, PackedBytes):
                self.add_packed(<PackedBytes>keys, <PackedBytes>values)
            else:
                self.add_objects(list(keys), list(values), deletions)
        finally:
            if self.last is not NULL:  # copy the last key, because the caller may free the rows
                self.last_key = (<const char *>self.last)[: self.last_size]
                self.last = <const uint8_t *>PyBytes_AS_STRING(self.last_key)

    cdef int add_packed(self, PackedBytes keys, PackedBytes values) except -1:
        cdef Py_ssize_t index
        for index in range(keys.stop - keys.start):
            self.add_row(
                keys.at(index), keys.size(index), values.at(index), values.size(index), VALUE
            )
        return 0

    cdef int add_objects(self, list keys, list values, bint deletions) except -1:
        cdef Py_ssize_t count = len(keys), index
        cdef bytes key, value
        for index in range(count):
            if index + AHEAD < count:
                prefetch_object(<PyObject *>keys[index + AHEAD])
                prefetch_object(<PyObject *>values[index + AHEAD])
            key, value = keys[index], values[index]
            if key is None:
                raise TypeError("a key must be bytes, not None")
            if value is None and not deletions:
                raise TypeError("the values of a bulk load must be bytes, not None")
            self.add_row(
                <const uint8_t *>PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key),
                NULL if value is None else <const uint8_t *>PyBytes_AS_STRING(value),
                0 if value is None else PyBytes_GET_SIZE(value),
                DELETION if value is None else VALUE,
            )
        return 0

    cdef int add_row(
        self, const uint8_t *data, size_t key_size, const uint8_t *value, size_t value_size,
        RowType kind,
    ) except -1:
        cdef size_t shared = 0
        cdef uint8_t *here
        if key_size + value_size > LARGEST_ROW:
            raise ValueError(f"a row of {key_size + value_size} bytes is too large for a table file")
        if self.last is not NULL:
            shared = shared_prefix(self.last, self.last_size, data, key_size)
            if shared == key_size or (
                shared < self.last_size and data[shared] < self.last[shared]
            ):
                raise ValueError("the keys of a bulk load must be strictly ascending, but are not")
        if self.filled(key_size + value_size):
            self.end_block()
        if self.pending is not None:
            self.add_to_index(separator(self.pending, (<const char *>data)[:key_size]))
        if self.counter == RESTART_INTERVAL or self.out.size == self.begin:
            put_u32(more(&self.restarts, 4), <uint32_t>(self.out.size - self.begin))
            self.restarts.size += 4
            self.counter = 0
            shared = 0
        here = more(&self.out, key_size + value_size + 40)
        here = put_varint(here, shared)
        here = put_varint(here, key_size - shared + 8)
        here = put_varint(here, value_size)
        memcpy(here, data + shared, key_size - shared)
        here = put_row_type(here + (key_size - shared), kind)
        if value_size:
            memcpy(here, value, value_size)
        self.out.size = here + value_size - self.out.data
        self.counter += 1
        self.last, self.last_size = data, key_size
        self.rows += 1
        self.deletions += kind == DELETION
        self.key_bytes += key_size + 8
        self.value_bytes += value_size
        if self.filtered:
            if key_size > LONGEST_HASHED:
                self.filtered = False
                self.hashes.size = 0
            else:
                (<uint64_t *>more(&self.hashes, 8))[0] = filter_hash(data, key_size)
                self.hashes.size += 8
        return 0

    cdef bint filled(self, size_t row) noexcept:
        """Return True if a row of ``row`` bytes must go into the next block, by RocksDB's rule."""
        cdef size_t size = self.out.size - self.begin
        if size == 0:
            return False
        size += self.restarts.size + 4
        if size >= self.block_size:
            return True
        return size + row + 8 > self.block_size and 10 * size > 9 * self.block_size

    cdef int end_block(self) except -1:
        """Finish the current data block."""
        memcpy(more(&self.out, self.restarts.size + 4), self.restarts.data, self.restarts.size)
        self.out.size += self.restarts.size
        put_u32(self.out.data + self.out.size, <uint32_t>(self.restarts.size // 4))
        self.out.size += 4
        self.restarts.size = 0
        self.pending = (<const char *>self.last)[: self.last_size]
        self.pending_at, self.pending_size = self.close_block()
        self.blocks += 1
        if self.out.size >= FLUSHED_BYTES:
            self.flush()
        return 0

    cdef (uint64_t, uint64_t) close_block(self) except *:
        """Append the trailer of the current block. Return the position and size of the block."""
        cdef uint64_t at = self.flushed + self.begin
        cdef uint64_t size = self.out.size - self.begin
        cdef uint8_t *here = more(&self.out, TRAILER_BYTES)
        here[0] = 0     # not compressed
        block = PyMemoryView_FromMemory(<char *>self.out.data + self.begin, size, PyBUF_READ)
        put_u32(here + 1, <uint32_t>(<uint64_t>xxhash.xxh3_64_intdigest(block)))
        self.out.size += TRAILER_BYTES
        self.begin = self.out.size
        return at, size

    cdef int flush(self) except -1:
        """Write the finished blocks to the file."""
        view = PyMemoryView_FromMemory(<char *>self.out.data, self.out.size, PyBUF_READ)
        while len(view):
            view = view[self.file.write(view) :]
        self.flushed += self.out.size
        self.out.size = self.begin = 0
        return 0

    cdef int add_to_index(self, bytes key) except -1:
        """Add the pending block to the index.

        ``key`` must not be less than the last key of the block, and must be less than the first key
        of the next block.
        """
        cdef size_t size = PyBytes_GET_SIZE(key)
        cdef uint8_t *here
        put_u32(more(&self.index_restarts, 4), <uint32_t>self.index.size)
        self.index_restarts.size += 4
        here = more(&self.index, size + 30)
        here = put_varint(put_varint(here, 0), size)
        memcpy(here, PyBytes_AS_STRING(key), size)
        here = put_varint(put_varint(here + size, self.pending_at), self.pending_size)
        self.index.size = here - self.index.data
        self.pending = None
        return 0

    def finish(self):
        """Finish and close the file, which must contain at least one row."""
        cdef uint64_t index_at, index_size, tail
        if self.out.size > self.begin:
            self.end_block()
        tail = self.flushed + self.begin
        self.add_to_index(self.pending)
        metadata = []
        filter_bytes = 0
        if self.filtered:
            filter_bytes = self.add_filter()
            metadata.append((b"fullfilter." + _FILTER_POLICY, self.handle()))
        more(&self.index, self.index_restarts.size + 4)
        memcpy(self.index.data + self.index.size, self.index_restarts.data, self.index_restarts.size)
        self.index.size += self.index_restarts.size
        put_u32(self.index.data + self.index.size, <uint32_t>(self.index_restarts.size // 4))
        self.index.size += 4
        memcpy(more(&self.out, self.index.size), self.index.data, self.index.size)
        self.out.size += self.index.size
        index_at, index_size = self.close_block()
        index = varint(index_at) + varint(index_size)
        small_block(&self.out, self.properties(tail, index_size, filter_bytes), 1 << 30)
        metadata.append((b"rocksdb.properties", self.handle()))
        small_block(&self.out, metadata, 1)
        handles = self.handle() + index
        append(&self.out, bytes([_XXH3]) + handles.ljust(40, b"\0"))
        append(&self.out, struct.pack("<IQ", _FORMAT_VERSION, _MAGIC))
        self.flush()
        self.file.close()

    def close(self):
        """Close the file, even if it is not finished."""
        self.file.close()

    cdef bytes handle(self):
        """Finish a metadata block. Return its position and size as two varints."""
        cdef uint64_t at, size
        at, size = self.close_block()
        return varint(at) + varint(size)

    cdef uint64_t add_filter(self) except 0:
        """Append the Bloom filter, and return its size in bytes."""
        cdef uint64_t keys = self.hashes.size // 8
        cdef uint64_t size = min((keys * self.bloom_bits + 7) // 8, <uint64_t>LARGEST_FILTER)
        cdef uint64_t *hashes = <uint64_t *>self.hashes.data
        cdef uint8_t *lines
        cdef uint8_t *line
        cdef uint32_t bits
        cdef uint64_t i
        cdef int probes, probe
        size = (size + FILTER_LINE - 1) // FILTER_LINE * FILTER_LINE
        probes = probes_for(8000 * size // keys)
        lines = more(&self.out, size + FILTER_METADATA)
        for i in range(size + FILTER_METADATA):
            lines[i] = 0
        for i in range(keys):
            line = lines + ((<uint64_t><uint32_t>hashes[i] * (size // FILTER_LINE)) >> 32) * FILTER_LINE
            bits = <uint32_t>(hashes[i] >> 32)
            for probe in range(probes):
                line[(bits >> 23) >> 3] |= <uint8_t>(1 << ((bits >> 23) & 7))
                bits *= <uint32_t>0x9E3779B9
        # 0xFF marks a newer kind of filter. The 0 in the next byte selects the first newer kind.
        lines[size] = 0xFF
        lines[size + 2] = <uint8_t>probes
        self.out.size += size + FILTER_METADATA
        return size + FILTER_METADATA

    cdef list properties(self, uint64_t tail, uint64_t index_size, uint64_t filter_bytes):
        """Return the sorted rows ``(key, value)`` of the properties block."""
        now = varint(int(time.time()))
        session = "".join(random.choices(_LETTERS, k=20)).encode()
        found = {
            b"rocksdb.block.based.table.index.type": struct.pack("<I", 0),
            b"rocksdb.block.based.table.prefix.filtering": b"0",
            b"rocksdb.block.based.table.whole.key.filtering": b"1",
            b"rocksdb.column.family.id": varint(2**31 - 1),
            b"rocksdb.comparator": _COMPARATOR,
            b"rocksdb.compression": b"NoCompression",
            # RocksDB uses the next three properties as a key of its block cache. So two files must
            # not have the same values.
            b"rocksdb.creating.db.identity": b"kstore",
            b"rocksdb.creating.session.identity": session,
            b"rocksdb.original.file.number": varint(1),
            b"rocksdb.creation.time": now,
            b"rocksdb.file.creation.time": now,
            b"rocksdb.data.size": varint(tail),
            b"rocksdb.deleted.keys": varint(self.deletions),
            b"rocksdb.external_sst_file.global_seqno": struct.pack("<Q", 0),
            b"rocksdb.external_sst_file.version": struct.pack("<I", _EXTERNAL_VERSION),
            b"rocksdb.filter.size": varint(filter_bytes),
            b"rocksdb.fixed.key.length": varint(0),
            b"rocksdb.format.version": varint(0),
            b"rocksdb.index.key.is.user.key": varint(1),
            b"rocksdb.index.size": varint(index_size),
            b"rocksdb.index.value.is.delta.encoded": varint(1),
            b"rocksdb.merge.operands": varint(0),
            b"rocksdb.num.data.blocks": varint(self.blocks),
            b"rocksdb.num.entries": varint(self.rows),
            b"rocksdb.num.filter_entries": varint(self.hashes.size // 8),
            b"rocksdb.num.range-deletions": varint(0),
            b"rocksdb.oldest.key.time": varint(0),
            b"rocksdb.raw.key.size": varint(self.key_bytes),
            b"rocksdb.raw.value.size": varint(self.value_bytes),
            b"rocksdb.tail.start.offset": varint(tail),
        }
        if filter_bytes:
            found[b"rocksdb.filter.policy"] = b"bloomfilter"
        return sorted(found.items())


cdef int probes_for(uint64_t millibits) noexcept:
    """Return the number of probes of a filter, as in RocksDB's own table.

    ``millibits`` is the size of the filter in thousandths of a bit per key.
    """
    cdef int i
    cdef uint64_t[12] most = [
        2080, 3580, 5100, 6640, 8300, 10070, 11720, 14001, 16050, 18300, 22001, 25501
    ]
    for i in range(12):
        if millibits <= most[i]:
            return i + 1
    return 24 if millibits > 50000 else <int>((millibits - 1) // 2000 - 1)
