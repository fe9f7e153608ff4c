"""The engine's options, with the defaults of Kafka Streams, and the native options."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass
from functools import partial

from rocksdict import (
    BlockBasedOptions,
    Cache,
    DBCompactionStyle,
    DBCompressionType,
    DBRecoveryMode,
    Options,
    WriteOptions,
)

from kstore_core.engine import Durability, EngineOptions
from kstore_core.errors import SpecError
from kstore_rocksdb.files.table_writer import TableWriter
from kstore_rocksdb.loading import CompressedWriter, MakeWriter

__all__ = ["OFFSETS", "NativeOptions", "RocksDBOptions", "write_options"]

OFFSETS = "offsets"
"""Kafka Streams' namespace of offsets, position and status, which has other options."""

_KEPT_LOGS = 10
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
    """Options of RocksDB databases.

    Attributes
    ----------
    write_buffer_bytes : int
        The size at which a namespace's write buffer is flushed.
    max_write_buffers : int
        The number of write buffers of a namespace, including those that are being flushed.
    block_cache_bytes : int
        The size of the cache of uncompressed blocks, shared by all databases of an engine object.
    block_size_bytes : int
        The uncompressed size of a block, the unit of reading.
    bloom_bits : int
        Bits per key of the Bloom filter; 0 for no filter.
    optimize_filters_for_hits : bool
        Make no filter for the last level. This is good if most lookups find their key.
    compaction : str
        ``"universal"`` or ``"level"``.
    compression : str
        ``"none"``, ``"lz4"``, ``"snappy"`` or ``"zstd"``.
    parallelism : int
        The number of background threads for all databases of the process. 0 means one per CPU, but
        at least 2.
    max_open_files : int
        The greatest number of open table files. -1 means no limit. Read-only databases have none.
    mmap_reads : bool
        Map table files into memory instead of reading blocks into the cache. A lookup is faster;
        a table file that another program truncates while it is open ends the process (SIGBUS).
    offsets_write_buffer_bytes : int
        The size of the write buffer of the namespace ``offsets``.
    """

    write_buffer_bytes: int = 16 * 1024 * 1024
    max_write_buffers: int = 3
    block_cache_bytes: int = 50 * 1024 * 1024
    block_size_bytes: int = 4096
    bloom_bits: int = 10
    optimize_filters_for_hits: bool = True
    compaction: str = "universal"
    compression: str = "none"
    parallelism: int = 0
    max_open_files: int = -1
    mmap_reads: bool = True
    offsets_write_buffer_bytes: int = 1024 * 1024

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
    """The binding's options for one database.

    All of them use the raw mode of the binding, because its other mode unpickles stored values.
    """

    def __init__(self, options: RocksDBOptions, cache: Cache, *, read_only: bool = False) -> None:
        self._options = options
        self._cache = cache
        self._max_open_files = -1 if read_only else options.max_open_files

    @property
    def write_buffers_bytes(self) -> int:
        """The greatest size of all write buffers of one namespace."""
        return self._options.write_buffer_bytes * self._options.max_write_buffers

    def database(self) -> Options:
        """Return the options of the whole database."""
        native = self._rows()
        native.create_if_missing(True)
        native.set_atomic_flush(True)
        native.increase_parallelism(self._options.parallelism or max(os.cpu_count() or 1, 2))
        native.set_max_open_files(self._max_open_files)
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
        native.set_optimize_filters_for_hits(options.optimize_filters_for_hits)
        return native


def write_options(durability: Durability) -> WriteOptions:
    """Return the options for writing a batch of sorted rows at this durability."""
    native = WriteOptions()
    native.memtable_insert_hint_per_batch = True
    native.no_slowdown = True  # see stalls.py
    if durability == "changelog":
        native.disable_wal = True  # type: ignore[method-assign, assignment]  # an attribute
    else:
        native.sync = durability == "power"
    return native
