"""Bugs of engines whose rows are in files: what a power cut would take."""

from __future__ import annotations

from kstore_core.testing import WrappedDatabase, WrappedEngine
from kstore_lmdb import LMDBEngine
from kstore_rocksdb import RocksDBEngine
from tests.testing.planted.base import PlantedEngine, planted


class OnLMDB(PlantedEngine):
    """An engine in files; children of the test unpickle it."""

    inner_type: type = LMDBEngine
    name = LMDBEngine.name
    capabilities = LMDBEngine.capabilities

    def __init__(self, options=None):
        WrappedEngine.__init__(self, self.inner_type(options))

    def __reduce__(self):
        return next(base for base in type(self).__mro__ if base.__module__ == __name__), ()


class OnRocksDB(OnLMDB):
    inner_type = RocksDBEngine
    name = RocksDBEngine.name
    capabilities = RocksDBEngine.capabilities


@planted("test_at_the_level_power_no_write_returns_before_it_is_synced", lives_catch=False)
class TakesPowerForProcess(OnLMDB):
    """The level is accepted, and nothing is synced."""

    def open(self, root, store, *, durability="process", read_only=False):
        return super().open(root, store, durability="process", read_only=read_only)


@planted(
    "test_at_the_level_power_no_write_returns_before_it_is_synced",
    "test_at_the_level_power_no_child_returns_before_it_is_synced",
    lives_catch=False,
)
class NeverSyncsALog(OnRocksDB):
    def open(self, root, store, *, durability="process", read_only=False):
        return super().open(root, store, durability="process", read_only=read_only)

    def open_child(self, root, store, child, *, durability="process", read_only=False):
        return super().open_child(root, store, child, durability="process", read_only=read_only)


@planted("test_no_sync_returns_before_it_is_done", lives_catch=False)
class SyncsNothing(OnLMDB):
    class database_type(WrappedDatabase):  # noqa: N801 - an attribute of engines
        def sync(self):
            pass
