"""The options of the RocksDB engine. Most defaults are those of Kafka Streams."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

from rocksdict import (
    BlockBasedOptions,
    Cache,
    DBCompactionStyle,
    DBCompressionType,
    DBRecoveryMode,
    Options,
    WriteBufferManager,
    WriteOptions,
)

from kstore_core.engine import Durability, EngineOptions
from kstore_core.errors import SpecError
from kstore_rocksdb.files.table_writer import TableWriter
from kstore_rocksdb.loading import CompressedWriter, MakeWriter

__all__ = ["OFFSETS", "NativeOptions", "RocksDBOptions", "write_options"]

OFFSETS = "offsets"
"""The namespace in which Kafka Streams stores offsets, position and status.

The options of this namespace differ from the options of all other namespaces.
"""

_KEPT_LOGS = 10
_MOST_OPENING_THREADS = 16
_NO_LIMIT = 2**60
_FILTER_RATIO = 0.02
"""The size of a filter divided by the size of its write buffer.

The filter has 27 bits per key if rows have 170 bytes, and 8 bits per key if rows have 50 bytes.
"""

_PROFILES: dict[str, dict[str, Any]] = {
    "kstore": {},
    "kafka": {"block_size_bytes": 4096, "mmap_reads": False, "write_buffer_filter": False},
}
"""The options of a profile that differ from the defaults."""

_COMPACTIONS = {
    "universal": DBCompactionStyle.universal,
    "level": DBCompactionStyle.level,
}
_COMPRESSIONS = {
    "none": DBCompressionType.none,
    "lz4": DBCompressionType.lz4,
    "snappy": DBCompressionType.snappy,
    "zstd": DBCompressionType.zstd,
}


@dataclass(frozen=True)
class RocksDBOptions(EngineOptions):
    """The options of RocksDB databases.

    Attributes
    ----------
    write_buffer_bytes : int
        The size at which the write buffer of a namespace is flushed.
    max_write_buffers : int
        The greatest number of write buffers of a namespace, including those that are being flushed.
    write_buffer_filter : bool
        If True, each write buffer has a Bloom filter of its keys. The filter takes 2 % of the size
        of the buffer. Lookups of keys that are not in the buffer are then faster.
    block_cache_bytes : int
        The size of the cache of uncompressed blocks, which all databases of an engine object share.
    block_size_bytes : int
        The uncompressed size of a block. RocksDB reads whole blocks from a table file.
    bloom_bits : int
        The number of bits per key in the Bloom filters; no filters if 0.
    optimize_filters_for_hits : bool
        If True, the last level has no filter. This saves memory if most lookups find their key.
    compaction : str
        The style of compactions, ``"universal"`` or ``"level"``.
    compression : str
        The compression of blocks, ``"none"``, ``"lz4"``, ``"snappy"`` or ``"zstd"``.
    parallelism : int
        The number of background threads for all databases of the process. If it is 0, there is one
        thread per CPU, but at least 2 threads.
    max_open_files : int
        The greatest number of open table files; no limit if -1. Read-only databases have no limit.
    mmap_reads : bool
        If True, map table files into memory instead of reading blocks into the cache. Lookups are
        then faster. But if another program truncates an open table file, the process ends (SIGBUS).
    offsets_write_buffer_bytes : int
        The size at which the write buffer of the namespace ``offsets`` is flushed.
    """

    write_buffer_bytes: int = 16 * 1024 * 1024
    max_write_buffers: int = 3
    write_buffer_filter: bool = True
    block_cache_bytes: int = 50 * 1024 * 1024
    block_size_bytes: int = 2048
    bloom_bits: int = 10
    optimize_filters_for_hits: bool = True
    compaction: str = "universal"
    compression: str = "none"
    parallelism: int = 0
    max_open_files: int = -1
    mmap_reads: bool = True
    offsets_write_buffer_bytes: int = 1024 * 1024

    @classmethod
    def parse(cls, given: Mapping[str, Any] | EngineOptions | None) -> Self:
        """Create the options from a mapping, in which ``profile`` selects the defaults.

        The profile ``"kafka"`` has exactly the options of Kafka Streams.
        """
        if not isinstance(given, Mapping) or "profile" not in given:
            return super().parse(given)
        others = dict(given)
        profile = others.pop("profile")
        _one_of("profile", profile, _PROFILES)
        return super().parse(_PROFILES[profile] | others)

    def __post_init__(self) -> None:
        _one_of("compaction", self.compaction, _COMPACTIONS)
        _one_of("compression", self.compression, _COMPRESSIONS)
        _at_least("write_buffer_bytes", self.write_buffer_bytes, 64 * 1024)
        _at_least("max_write_buffers", self.max_write_buffers, 2)
        _at_least("block_cache_bytes", self.block_cache_bytes, 0)
        _at_least("block_size_bytes", self.block_size_bytes, 256)
        _at_least("bloom_bits", self.bloom_bits, 0)
        _at_least("parallelism", self.parallelism, 0)
        _at_least("offsets_write_buffer_bytes", self.offsets_write_buffer_bytes, 64 * 1024)
        if self.max_open_files != -1:
            _at_least("max_open_files", self.max_open_files, 16)


def _one_of(name: str, value: str, known: Collection[str]) -> None:
    if value not in known:
        raise SpecError(
            f"option {name!r} must be one of {', '.join(map(repr, known))}, not {value!r}"
        )


def _at_least(name: str, value: int, least: int) -> None:
    if value < least:
        raise SpecError(f"option {name!r} must be at least {least}, not {value}")


class NativeOptions:
    """The options of one database for the library ``rocksdict``.

    All options use the raw mode of the library, because its other mode unpickles stored values.
    """

    def __init__(self, options: RocksDBOptions, cache: Cache, *, read_only: bool = False) -> None:
        self._options = options
        self._cache = cache
        self._max_open_files = -1 if read_only else options.max_open_files
        self._buffers = WriteBufferManager(_NO_LIMIT, allow_stall=False)

    @property
    def write_buffers_bytes(self) -> int:
        """The greatest size of all write buffers of a namespace together."""
        return self._options.write_buffer_bytes * self._options.max_write_buffers

    @property
    def maps_tables(self) -> bool:
        """True if kstore may map table files into memory."""
        return self._options.mmap_reads

    @contextmanager
    def full_buffers(self) -> Iterator[None]:
        """Return a context in which a write begins a flush, as if all write buffers were full."""
        self._buffers.set_buffer_size(1)
        try:
            yield
        finally:
            self._buffers.set_buffer_size(_NO_LIMIT)

    def database(self, *, table_files: int) -> Options:
        """Return new options of the database as a whole. Two databases must not share options.

        ``table_files`` is the number of table files that RocksDB will open with the database.
        """
        native = self._rows()
        native.create_if_missing(True)
        native.set_atomic_flush(True)
        native.set_write_buffer_manager(self._buffers)
        native.increase_parallelism(self._options.parallelism or max(os.cpu_count() or 1, 2))
        native.set_max_open_files(self._max_open_files)
        # RocksDB starts this number of threads for each column family. The default is 16 threads.
        native.set_max_file_opening_threads(max(1, min(table_files, _MOST_OPENING_THREADS)))
        native.set_allow_mmap_reads(self._options.mmap_reads)
        native.set_wal_recovery_mode(DBRecoveryMode.tolerate_corrupted_tail_records())
        native.set_keep_log_file_num(_KEPT_LOGS)
        return native

    def family(self, name: str) -> Options:
        """Return the options of the column family ``name``."""
        return self._offsets() if name == OFFSETS else self._rows()

    def table_writer(self, name: str) -> MakeWriter:
        """Return a function that opens a table file of the column family ``name`` for writing."""
        options = self._options
        if options.compression != "none":
            native = self.family(name)
            return lambda path: CompressedWriter(path, native)
        return partial(
            TableWriter, block_size=options.block_size_bytes, bloom_bits=options.bloom_bits
        )

    def _offsets(self) -> Options:
        native = Options(raw_mode=True)
        native.set_compression_type(DBCompressionType.none())
        native.set_write_buffer_size(self._options.offsets_write_buffer_bytes)
        return native

    def _rows(self) -> Options:
        options = self._options
        table = BlockBasedOptions()
        table.set_block_cache(self._cache)
        table.set_block_size(options.block_size_bytes)
        table.set_format_version(6)
        if options.bloom_bits:
            table.set_bloom_filter(options.bloom_bits, False)
        native = Options(raw_mode=True)
        native.set_block_based_table_factory(table)
        native.set_compression_type(_COMPRESSIONS[options.compression]())
        native.set_compaction_style(_COMPACTIONS[options.compaction]())
        native.set_write_buffer_size(options.write_buffer_bytes)
        native.set_max_write_buffer_number(options.max_write_buffers)
        if options.write_buffer_filter:
            native.set_memtable_whole_key_filtering(True)
            native.set_memtable_prefix_bloom_ratio(_FILTER_RATIO)
        native.set_optimize_filters_for_hits(options.optimize_filters_for_hits)
        return native


def write_options(durability: Durability) -> WriteOptions:
    """Return the options for writing batches of sorted rows at a level of durability."""
    native = WriteOptions()
    native.memtable_insert_hint_per_batch = True
    native.no_slowdown = True  # see stalls.py
    if durability == "changelog":
        native.disable_wal = True  # type: ignore[method-assign, assignment]  # an attribute
    else:
        native.sync = durability == "power"
    return native
