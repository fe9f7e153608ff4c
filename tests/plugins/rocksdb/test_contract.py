"""The RocksDB engine, held to the contract."""

from __future__ import annotations

from kstore_core.testing import EngineSuite
from kstore_rocksdb import RocksDBEngine


class TestRocksDBEngine(EngineSuite):
    def make_engine(self) -> RocksDBEngine:
        return RocksDBEngine()
