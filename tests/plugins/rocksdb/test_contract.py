"""The RocksDB engine, held to the contract."""

from __future__ import annotations

from kstore_core.testing import EngineSuite, StoreSuite
from kstore_rocksdb import RocksDBEngine


class TestRocksDBEngine(EngineSuite):
    def make_engine(self) -> RocksDBEngine:
        return RocksDBEngine()


class TestStoresOnRocksDB(StoreSuite):
    def make_engine(self) -> RocksDBEngine:
        return RocksDBEngine()
