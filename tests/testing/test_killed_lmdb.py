"""LMDB under SIGKILL."""

from __future__ import annotations

from kstore_core.testing import CrashSuite
from kstore_lmdb import LMDBEngine


class TestLMDB(CrashSuite):
    def make_engine(self) -> LMDBEngine:
        return LMDBEngine()
