"""The RocksDB engine of kstore, which uses the directory layout of Kafka Streams."""

from __future__ import annotations

from kstore_core.hookspecs import EngineRegistrar, hookimpl
from kstore_rocksdb.engine import RocksDBEngine
from kstore_rocksdb.options import RocksDBOptions

__all__ = ["RocksDBEngine", "RocksDBOptions", "kstore_register_engines"]


@hookimpl
def kstore_register_engines(registrar: EngineRegistrar) -> None:
    """Register :class:`RocksDBEngine`."""
    registrar.add(RocksDBEngine)
