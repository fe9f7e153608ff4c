"""RocksDB under KeyboardInterrupt."""

from __future__ import annotations

from kstore_core.testing import InterruptSuite
from kstore_rocksdb import RocksDBEngine


class TestRocksDB(InterruptSuite):
    def make_engine(self) -> RocksDBEngine:
        return RocksDBEngine()
