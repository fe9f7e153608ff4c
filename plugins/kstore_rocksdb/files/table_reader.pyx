# cython: language_level=3
"""Read the rows of RocksDB table files in the order of their keys.

An iterator of the library ``rocksdict`` needs three calls for each row. This reader is faster,
because it maps the files into memory and merges their rows in one loop. It reads block-based tables
of the format versions 5 and 6 with uncompressed blocks, and verifies the checksum of each block. It
raises UnreadableTableError for any other file, which the caller must then read with the library.
The format is described at https://github.com/facebook/rocksdb/wiki, page
Rocksdb-BlockBasedTable-Format.
"""

from mmap import ACCESS_READ, MADV_RANDOM, mmap
from threading import Lock

from xxhash import xxh3_64_intdigest, xxh64_intdigest

from cpython.buffer cimport PyBUF_READ
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcmp, memcpy, memset

from kstore_core.engine.packed cimport PackedBytes, packed
from kstore_rocksdb.files.hashes cimport read32, read64

__all__ = ["TableFile", "TableScan", "UnreadableTableError"]

cdef enum:
    TRAILER_BYTES = 5           # one byte for the compression of a block, and its checksum
    ROW_BYTES = 8               # the sequence number and the type of a row, after its key
    FOOTER_BYTES = 53
    DELETION = 0
    VALUE = 1
    SINGLE_DELETION = 7
    XXH64 = 3
    XXH3 = 4
    LONGEST_KEY = 0x10000000
    KEY_BYTES = 32              # the memory that is allocated at first for each packed key
    VALUE_BYTES = 256           # the same for each value

cdef object _xxh3 = xxh3_64_intdigest, _xxh64 = xxh64_intdigest
cdef uint64_t MAGIC = 0x88E241B785F4CFF7ULL
cdef uint32_t EXTENDED_MAGIC = 0x007A003E


class UnreadableTableError(Exception):
    """The error for a table file that is damaged, or of a kind that this reader does not know."""


cdef inline const uint8_t *varint(
    const uint8_t *here, const uint8_t *end, uint64_t *number
) noexcept:
    """Decode a varint at ``here`` to ``number``, and return the address after the varint.

    Return NULL if the varint does not end before ``end``.
    """
    cdef uint64_t result = 0
    cdef int shift = 0
    while here < end and shift < 64:
        result |= <uint64_t>(here[0] & 0x7F) << shift
        here += 1
        if not here[-1] & 0x80:
            number[0] = result
            return here
        shift += 7
    return NULL


cdef inline int compared(
    const uint8_t *one, size_t one_size, const uint8_t *other, size_t other_size
) noexcept:
    """Compare two keys. Return a number below 0 if ``one`` is less, 0 if equal, otherwise above 0."""
    cdef int order = memcmp(one, other, min(one_size, other_size))
    return order if order else (one_size > other_size) - (one_size < other_size)


cdef inline uint32_t last_byte_mixed(uint32_t checksum, uint8_t last) noexcept:
    return checksum ^ <uint32_t>(<uint32_t>last * <uint32_t>0x6B9083D9)


# ---------------------------------------------------------------- one file

cdef class TableFile:
    """A table file, which is mapped into memory while this object exists.

    Parameters
    ----------
    path : str
        The path of the file.
    is_random : bool
        If True, single blocks will be read, so the system must not read further blocks in advance.

    Raises
    ------
    UnreadableTableError
        The file is damaged, or has features that this reader does not know: compression, another
        order of keys, a partitioned index, or deletions of ranges.
    OSError
        The file cannot be opened.
    """

    cdef readonly str path
    cdef const uint8_t[::1] memory
    cdef const uint8_t *data
    cdef uint64_t size
    cdef int checksums
    cdef uint32_t context       # a number that changes each checksum in version 6; otherwise 0
    cdef const uint8_t *index
    cdef const uint8_t *index_end       # the end of the entries of the index
    cdef const uint8_t *starts          # the positions of these entries, 32 bits each
    cdef uint32_t blocks
    cdef uint64_t index_extra   # bytes after each key of the index

    def __init__(self, str path, bint is_random=False):
        self.path = path
        with open(path, "rb") as file:
            try:
                mapped = mmap(file.fileno(), 0, access=ACCESS_READ)
            except ValueError:
                raise self.unreadable("it is empty") from None
        if is_random:
            mapped.madvise(MADV_RANDOM)
        self.memory = mapped
        self.data = &self.memory[0]
        self.size = self.memory.shape[0]
        if self.size < FOOTER_BYTES:
            raise self.unreadable("it is too short")
        self.read_footer()

    cdef object unreadable(self, str why):
        return UnreadableTableError(f"cannot read the table file {self.path} without RocksDB: {why}")

    cdef int read_footer(self) except -1:
        cdef uint64_t at = self.size - FOOTER_BYTES
        cdef const uint8_t *footer = self.data + at
        cdef const uint8_t *end = footer + FOOTER_BYTES
        cdef uint8_t copy[FOOTER_BYTES]
        cdef uint64_t meta_at = 0, meta_size = 0, index_at = 0, index_size = 0
        cdef uint32_t version = <uint32_t>read32(end - 12)
        if read64(end - 8) != MAGIC:
            raise self.unreadable("it is not a block-based table")
        self.checksums = footer[0]
        if self.checksums not in (XXH64, XXH3):
            raise self.unreadable(f"its checksums have the type {self.checksums}, which is not supported")
        if version == 5:
            self.context = 0
            footer = varint(footer + 1, end, &meta_at)
            footer = <const uint8_t *>NULL if footer is NULL else varint(footer, end, &meta_size)
            footer = <const uint8_t *>NULL if footer is NULL else varint(footer, end, &index_at)
            footer = <const uint8_t *>NULL if footer is NULL else varint(footer, end, &index_size)
            if footer is NULL:
                raise self.unreadable("its footer is damaged")
        elif version == 6:
            self.context = <uint32_t>read32(footer + 9)
            memcpy(copy, footer, FOOTER_BYTES)
            memset(&copy[5], 0, 4)
            if (
                read32(footer + 1) != EXTENDED_MAGIC
                or self.context == 0
                or read64(end - 20) != 0
                or read32(footer + 5) != <uint32_t>(self.hashed(&copy[0], FOOTER_BYTES) + self.modifier(at))
            ):
                raise self.unreadable("its footer is damaged")
            meta_size = read32(footer + 13)
            if meta_size + TRAILER_BYTES > at:
                raise self.unreadable("its footer is damaged")
            meta_at = at - TRAILER_BYTES - meta_size
        else:
            raise self.unreadable(f"its format version {version} is not supported")
        self.read_metadata(meta_at, meta_size, index_at, index_size)
        return 0

    cdef int read_metadata(
        self, uint64_t at, uint64_t size, uint64_t index_at, uint64_t index_size
    ) except -1:
        """Read the properties of the file, check that it is readable, and find its index."""
        cdef const uint8_t *here
        cdef uint64_t first = 0, second = 0
        parts = {}
        for name, handle in self.small_block(at, size):
            here = <const uint8_t *>PyBytes_AS_STRING(handle)
            here = varint(here, here + len(handle), &first)
            if here is NULL:
                continue  # the row does not describe a block
            if varint(here, <const uint8_t *>PyBytes_AS_STRING(handle) + len(handle), &second) is NULL:
                continue
            parts[name] = (first, second)
        if b"rocksdb.range_del" in parts:
            raise self.unreadable("it contains deletions of ranges")
        first, second = parts.get(b"rocksdb.properties", (0, 0))
        properties = dict(self.small_block(first, second))
        needed = {
            b"rocksdb.comparator": b"leveldb.BytewiseComparator",
            b"rocksdb.block.based.table.index.type": bytes(4),
            b"rocksdb.index.value.is.delta.encoded": b"\1",
        }
        for name, value in needed.items():
            if properties.get(name) != value:
                raise self.unreadable(f"the value {properties.get(name)} of its property {name.decode()} is not supported")
        # If two blocks contain rows of the same key, the keys of the index end with ROW_BYTES, too.
        whole = properties.get(b"rocksdb.index.key.is.user.key") == b"\1"
        self.index_extra = 0 if whole else ROW_BYTES
        if b"rocksdb.index" in parts:
            index_at, index_size = parts[b"rocksdb.index"]
        self.index = self.block(index_at, index_size)
        self.index_end = self.entries_end(self.index, index_size, &self.blocks)
        self.starts = self.index_end
        count = properties.get(b"rocksdb.num.data.blocks", b"")
        here = <const uint8_t *>PyBytes_AS_STRING(count)
        if varint(here, here + len(count), &first) is NULL or first != self.blocks:
            raise self.unreadable("its index has entries without a restart")
        return 0

    cdef list small_block(self, uint64_t at, uint64_t size):
        """Return the rows ``(key, value)`` of a metadata block."""
        cdef uint32_t restarts
        cdef const uint8_t *here = self.block(at, size)
        cdef const uint8_t *end = self.entries_end(here, size, &restarts)
        cdef uint64_t shared = 0, rest = 0, value = 0
        cdef list rows = []
        cdef bytes key = b""
        while here < end:
            here = self.entry(here, end, &shared, &rest, &value)
            if shared > <uint64_t>len(key):
                raise self.unreadable("a block of its metadata is damaged")
            key = key[:shared] + (<const char *>here)[:rest]
            rows.append((key, (<const char *>here + rest)[:value]))
            here += rest + value
        return rows

    cdef uint32_t hashed(self, const uint8_t *data, uint64_t size) except? 0:
        """Return the checksum of a block or footer, before :meth:`modifier` is added."""
        cdef bint mixed = self.checksums == XXH3
        memory = PyMemoryView_FromMemory(<char *>data, size - mixed, PyBUF_READ)
        if not mixed:
            return <uint32_t>(<uint64_t>_xxh64(memory))
        return last_byte_mixed(<uint32_t>(<uint64_t>_xxh3(memory)), data[size - 1])

    cdef inline uint32_t modifier(self, uint64_t at) noexcept:
        """Return the number to add to the checksum of a block at the position ``at``."""
        if self.context == 0:
            return 0
        return self.context ^ <uint32_t>(<uint32_t>at + <uint32_t>(at >> 32))

    cdef const uint8_t *block(self, uint64_t at, uint64_t size) except NULL:
        """Verify the checksum of a block, and return the address of the block."""
        cdef uint32_t found
        if at > self.size or size > self.size - at or self.size - at - size < TRAILER_BYTES:
            raise self.unreadable(f"the block at byte {at} does not end within the file")
        if self.data[at + size] != 0:
            raise self.unreadable("its blocks are compressed, which is not supported")
        found = <uint32_t>(self.hashed(self.data + at, size + 1) + self.modifier(at))
        if found != read32(self.data + at + size + 1):
            raise self.unreadable(f"the block at byte {at} does not match its checksum")
        return self.data + at

    cdef const uint8_t *entries_end(
        self, const uint8_t *block, uint64_t size, uint32_t *restarts
    ) except NULL:
        """Return the address at which the entries of a block end and its list of restarts begins."""
        if size < 4:
            raise self.unreadable("a block is too short")
        restarts[0] = <uint32_t>read32(block + size - 4)
        if restarts[0] > (size - 4) // 4:  # an unknown feature sets the highest bit
            raise self.unreadable("a block uses a feature that is not supported")
        return block + size - 4 - 4 * <uint64_t>restarts[0]

    cdef inline const uint8_t *entry(
        self, const uint8_t *here, const uint8_t *end,
        uint64_t *shared, uint64_t *rest, uint64_t *value,
    ) except NULL:
        """Decode the three sizes at the start of an entry, and return the address after them."""
        if end - here >= 3 and (here[0] | here[1] | here[2]) < 0x80:
            shared[0], rest[0], value[0] = here[0], here[1], here[2]
            here += 3
        else:
            here = varint(here, end, shared)
            here = <const uint8_t *>NULL if here is NULL else varint(here, end, rest)
            here = <const uint8_t *>NULL if here is NULL else varint(here, end, value)
            if here is NULL:
                raise self.unreadable("an entry is damaged")
        if rest[0] > <uint64_t>(end - here) or value[0] > <uint64_t>(end - here) - rest[0]:
            raise self.unreadable("an entry does not end within its block")
        return here

    cdef const uint8_t *index_entry(
        self, uint32_t number, const uint8_t **key, uint64_t *key_size
    ) except NULL:
        """Set ``key`` to the key of an entry of the index, and return the address of its value."""
        cdef const uint8_t *here
        cdef uint64_t shared = 0
        cdef uint64_t at = read32(self.starts + 4 * <uint64_t>number)
        if at >= <uint64_t>(self.index_end - self.index):
            raise self.unreadable("its index is damaged")
        here = varint(self.index + at, self.index_end, &shared)
        here = <const uint8_t *>NULL if here is NULL else varint(here, self.index_end, key_size)
        if (
            here is NULL or shared or key_size[0] > <uint64_t>(self.index_end - here)
            or key_size[0] < self.index_extra
        ):
            raise self.unreadable("its index is damaged")
        key[0] = here
        here += key_size[0]
        key_size[0] -= self.index_extra
        return here

    cdef uint32_t find(self, const uint8_t *key, size_t size) except? 0xFFFFFFFF:
        """Return the number of the first block that may contain keys from ``key`` on."""
        cdef uint32_t low = 0, high = self.blocks, middle
        cdef const uint8_t *found
        cdef uint64_t found_size = 0
        while low < high:
            middle = low + (high - low) // 2
            self.index_entry(middle, &found, &found_size)
            if compared(found, found_size, key, size) < 0:
                low = middle + 1
            else:
                high = middle
        return low

    cdef const uint8_t *data_block(self, uint32_t number, const uint8_t **end) except NULL:
        """Return the address of a data block, and set ``end`` to the end of its entries."""
        cdef const uint8_t *here
        cdef uint64_t size = 0, at = 0
        cdef uint32_t restarts
        here = self.index_entry(number, &here, &size)
        here = varint(here, self.index_end, &at)
        if here is NULL or varint(here, self.index_end, &size) is NULL:
            raise self.unreadable("its index is damaged")
        here = self.block(at, size)
        end[0] = self.entries_end(here, size, &restarts)
        return here


# ---------------------------------------------------------------- several files

cdef class Cursor:
    """A position in a list of table files whose keys ascend from file to file.

    The cursor has a copy of the current key, because a block contains only the part of a key that
    differs from the previous key.
    """

    cdef list files
    cdef Py_ssize_t number      # the index of `file` in `files`
    cdef Py_ssize_t age         # the index of `files` among all lists; 0 has the newest rows
    cdef TableFile file
    cdef uint32_t next_block
    cdef const uint8_t *next
    cdef const uint8_t *end
    cdef uint8_t *key           # the key and its ROW_BYTES
    cdef size_t key_size        # the size of the key and its ROW_BYTES
    cdef size_t room
    cdef const uint8_t *value
    cdef size_t value_size
    cdef uint8_t kind

    def __init__(self, list files, Py_ssize_t age):
        self.files = files
        self.age = age
        self.file = files[0]

    def __dealloc__(self):
        free(self.key)

    cdef bint seek(self, bytes lo) except -1:
        """Move to the first row with ``key >= lo``. Return False if there is no such row."""
        cdef const uint8_t *data = <const uint8_t *>PyBytes_AS_STRING(lo)
        cdef size_t size = PyBytes_GET_SIZE(lo)
        while True:
            self.next_block = self.file.find(data, size)
            if self.next_block < self.file.blocks or not self.next_file():
                break
        while self.advance():
            if compared(self.key, self.key_size - ROW_BYTES, data, size) >= 0:
                return True
        return False

    cdef bint next_file(self) except -1:
        if self.number + 1 == len(self.files):
            return False
        self.number += 1
        self.file = self.files[self.number]
        self.next_block = 0
        return True

    cdef bint advance(self) except -1:
        """Move to the next row. Return False if there is no next row."""
        cdef const uint8_t *here
        cdef uint64_t shared = 0, rest = 0, value = 0
        while self.next == self.end:
            while self.next_block == self.file.blocks:
                if not self.next_file():
                    return False
            self.next = self.file.data_block(self.next_block, &self.end)
            self.next_block += 1
            self.key_size = 0
        here = self.file.entry(self.next, self.end, &shared, &rest, &value)
        if shared > self.key_size or shared + rest < ROW_BYTES or rest > LONGEST_KEY:
            raise self.file.unreadable("a key is damaged")
        if shared + rest > self.room:
            self.grow(shared + rest)
        memcpy(self.key + shared, here, rest)
        self.key_size = shared + rest
        self.kind = self.key[self.key_size - ROW_BYTES]
        self.value = here + rest
        self.value_size = value
        self.next = self.value + value
        return True

    cdef int grow(self, size_t size) except -1:
        cdef void *key = realloc(self.key, 2 * size)
        if key is NULL:
            raise MemoryError(f"cannot allocate memory for a key of {size} bytes")
        self.key, self.room = <uint8_t *>key, 2 * size
        return 0

    cdef inline bint precedes(self, Cursor other) noexcept:
        cdef int order = compared(
            self.key, self.key_size - ROW_BYTES, other.key, other.key_size - ROW_BYTES
        )
        return order < 0 or (order == 0 and self.age < other.age)


cdef class TableScan:
    """The rows of several table files with ``lo <= key < hi``, in ascending order.

    Parameters
    ----------
    runs : list of list of TableFile
        Lists of files. The keys of a list must ascend from file to file. If several lists contain
        the same key, the scan yields the row from the first of these lists.
    lo : bytes
        The first key, inclusive.
    hi : bytes or None
        The end of the keys, exclusive; no limit if None.
    """

    cdef list heap              # of Cursor; the cursor with the least key is first
    cdef bytes hi
    cdef uint8_t *last          # the last key that was read, even if it is deleted
    cdef Py_ssize_t last_size   # -1 before the first row
    cdef size_t room            # the allocated size of `last` in bytes
    cdef bint was_read          # the row of the first cursor was read
    cdef object lock

    def __init__(self, list runs, bytes lo not None, hi=None):
        cdef Cursor cursor
        cdef Py_ssize_t at
        self.hi = hi
        self.last_size = -1
        self.lock = Lock()
        self.heap = []
        for age, files in enumerate(runs):
            cursor = Cursor(files, age)
            if cursor.seek(lo):
                self.heap.append(cursor)
        for at in reversed(range(len(self.heap) // 2)):
            self.sift(at)

    def __dealloc__(self):
        free(self.last)

    def take(self, Py_ssize_t size, list keys not None, list values not None):
        """Append up to ``size`` rows to ``keys`` and ``values``. Return False if no rows remain.

        Raises
        ------
        UnreadableTableError
            A file is damaged. The rows before the damage were appended.
        """
        with self.lock:
            return self._take(size, keys, values)

    cdef bint _take(self, Py_ssize_t size, list keys, list values) except -1:
        cdef Cursor row
        while size > 0:
            row = self.next_row()
            if row is None:
                return False
            keys.append(PyBytes_FromStringAndSize(<const char *>row.key, row.key_size - ROW_BYTES))
            values.append(PyBytes_FromStringAndSize(<const char *>row.value, row.value_size))
            size -= 1
        return True

    def packed(self, Py_ssize_t size, Py_ssize_t most_bytes):
        """Return the keys and values of the next rows. There are none after the last row.

        Parameters
        ----------
        size : int
            The maximum number of rows.
        most_bytes : int
            The result ends with the first row at which the values have this size in bytes.

        Raises
        ------
        UnreadableTableError
            A file is damaged.
        """
        cdef PackedBytes keys = packed(0, 0), values = packed(0, 0)
        keys.memory.grow(size, KEY_BYTES * size)
        values.memory.grow(size, min(most_bytes, VALUE_BYTES * size))
        with self.lock:
            self._pack(size, most_bytes, keys, values)
        return keys, values

    cdef int _pack(
        self, Py_ssize_t size, Py_ssize_t most_bytes, PackedBytes keys, PackedBytes values
    ) except -1:
        cdef Cursor row
        while size > 0 and most_bytes > 0:
            row = self.next_row()
            if row is None:
                break
            keys.append(row.key, row.key_size - ROW_BYTES)
            # A copy, because the file may be damaged after its checksum was verified.
            values.append(row.value, row.value_size)
            size -= 1
            most_bytes -= row.value_size
        return 0

    cdef Cursor next_row(self):
        """Return the cursor at the next row that is not hidden, or None after the last row.

        The row is valid until the next call.
        """
        cdef Cursor top
        cdef size_t key_size
        while self.heap:
            top = <Cursor>self.heap[0]
            key_size = top.key_size - ROW_BYTES
            if self.was_read:
                self.was_read = False
                if not top.advance():
                    top = self.heap.pop()
                    if not self.heap:
                        break
                    self.heap[0] = top
                if len(self.heap) > 1:
                    self.sift(0)
                continue
            self.was_read = True
            if self.last_size == <Py_ssize_t>key_size and memcmp(self.last, top.key, key_size) == 0:
                continue
            if self.hi is not None and compared(
                top.key, key_size,
                <const uint8_t *>PyBytes_AS_STRING(self.hi), PyBytes_GET_SIZE(self.hi),
            ) >= 0:
                self.heap = []
                break
            self.remember(top.key, key_size)
            if top.kind == VALUE:
                return top
            if top.kind != DELETION and top.kind != SINGLE_DELETION:
                raise top.file.unreadable(f"it has rows of type {top.kind}, which is not supported")
        return None

    cdef int remember(self, const uint8_t *key, size_t size) except -1:
        """Copy a key to `last`."""
        cdef void *room
        if size > self.room or self.last is NULL:
            room = realloc(self.last, 2 * size + 1)
            if room is NULL:
                raise MemoryError(f"cannot allocate memory for a key of {size} bytes")
            self.last, self.room = <uint8_t *>room, 2 * size
        memcpy(self.last, key, size)
        self.last_size = size
        return 0

    cdef int sift(self, Py_ssize_t at) except -1:
        """Move the cursor at the index ``at`` of the heap down, until no child precedes it."""
        cdef Cursor moved = <Cursor>self.heap[at], child, other
        cdef Py_ssize_t size = len(self.heap), below
        while True:
            below = 2 * at + 1
            if below >= size:
                break
            child = <Cursor>self.heap[below]
            if below + 1 < size:
                other = <Cursor>self.heap[below + 1]
                if other.precedes(child):
                    child, below = other, below + 1
            if not child.precedes(moved):
                break
            self.heap[at] = child
            at = below
        self.heap[at] = moved
        return 0
