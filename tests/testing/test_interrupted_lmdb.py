"""LMDB under KeyboardInterrupt."""

from __future__ import annotations

from kstore_core.testing import InterruptSuite
from kstore_lmdb import LMDBEngine


class TestLMDB(InterruptSuite):
    def make_engine(self) -> LMDBEngine:
        return LMDBEngine()
