"""RocksDB under SIGKILL, with buffers so small that it flushes and compacts meanwhile."""

from __future__ import annotations

from kstore_core.testing import CrashSuite
from kstore_rocksdb import RocksDBEngine


class TestRocksDB(CrashSuite):
    def make_engine(self) -> RocksDBEngine:
        return RocksDBEngine({"write_buffer_bytes": 64 * 1024})
