"""Bugs of namespaces, opening, closing, copies and processes."""

from __future__ import annotations

from contextlib import suppress

from kstore_core.engine import Rows
from kstore_core.errors import (
    EngineLockedError,
    ForkedHandleError,
    KStoreError,
    StoreClosedError,
    UnsupportedError,
)
from kstore_core.testing import WrappedDatabase, WrappedNamespace, WrappedSnapshot
from tests.testing.planted.base import PlantedEngine, planted


def no_one():
    """The writer of a store that nobody holds."""
    return


@planted("test_a_dropped_namespace_is_gone_with_its_rows")
class KeepsTheRowsOfADroppedNamespace(WrappedDatabase):
    def __init__(self, inner, owner):
        super().__init__(inner, owner)
        self.dropped = owner.__dict__.setdefault("dropped", {})

    def drop_namespace(self, name):
        rows = (
            [] if name not in self.inner.namespaces() else list(self.inner.namespace(name).scan())
        )
        self.inner.drop_namespace(name)
        self.dropped[name] = rows

    def namespace(self, name):
        made = super().namespace(name)
        for keys, values in self.dropped.pop(name, []):
            self.inner.write({name: Rows(keys, values)})
        return made


@planted()
class LoadsNothingIntoWhatWasDropped(WrappedDatabase):
    """Found by the random lives alone."""

    dropped = ()

    def drop_namespace(self, name):
        self.inner.drop_namespace(name)
        self.dropped = {*self.dropped, name}

    def load(self, namespace, chunks):
        if namespace not in self.dropped:
            return self.inner.load(namespace, chunks)
        return sum(len(keys) for keys, _ in chunks)


@planted("test_the_default_namespace_cannot_be_dropped", lives_catch=False)
class DropsTheDefaultNamespace(WrappedDatabase):
    def drop_namespace(self, name):
        if name == "default":
            self.inner.write({name: Rows(deleted_ranges=[(b"", None)])})
        else:
            self.inner.drop_namespace(name)


@planted("test_a_new_database_has_the_default_namespace", lives_catch=False)
class DoesNotListTheDefaultNamespace(WrappedDatabase):
    def namespaces(self):
        return [name for name in self.inner.namespaces() if name != "default"]


@planted("test_an_empty_namespace_is_remembered", lives_catch=False)
class ForgetsEmptyNamespaces(WrappedDatabase):
    def close(self):
        with suppress(KStoreError):
            for name in self.inner.namespaces():
                if name != "default" and self.inner.namespace(name).first() is None:
                    self.inner.drop_namespace(name)
        self.inner.close()


@planted("test_a_read_only_database_makes_no_namespace", lives_catch=False)
class MakesNamespacesOfAReader(WrappedDatabase):
    def namespace(self, name):
        try:
            return super().namespace(name)
        except KeyError:
            return super().namespace("default")


@planted("test_writes_are_refused", lives_catch=False)
class WritesThroughAReader(PlantedEngine):
    def open(self, root, store, *, durability="process", read_only=False):
        if not read_only or store not in self.stores(root):
            return super().open(root, store, durability=durability, read_only=read_only)
        self.inner._stored[self.inner.open(root, store, read_only=True).path].holder = no_one
        return super().open(root, store, durability=durability)


@planted("test_a_missing_store_is_not_made", lives_catch=False)
class MakesAStoreForAReader(PlantedEngine):
    def open(self, root, store, *, durability="process", read_only=False):
        if read_only:
            with suppress(EngineLockedError):
                self.inner.open(root, store).close()
        return super().open(root, store, durability=durability, read_only=read_only)


@planted("test_one_writer_at_a_time", lives_catch=False)
class LetsASecondWriterIn(PlantedEngine):
    def open(self, root, store, *, durability="process", read_only=False):
        if store in self.stores(root):
            self.inner._stored[self.inner.open(root, store, read_only=True).path].holder = no_one
        return super().open(root, store, durability=durability, read_only=read_only)


@planted("test_one_writer_at_a_time", lives_catch=False)
class FreesTheNextWriterAtASecondClose(WrappedDatabase):
    def close(self):
        self.inner.close()
        self.inner._stored.holder = no_one


@planted("test_stores_are_named_and_not_made", lives_catch=False)
class DoesNotSortItsStores(PlantedEngine):
    def stores(self, root):
        return sorted(super().stores(root), reverse=True)


@planted("test_stores_and_roots_are_apart", lives_catch=False)
class MixesItsRoots(PlantedEngine):
    def open(self, root, store, *, durability="process", read_only=False):
        return super().open(root.parent, store, durability=durability, read_only=read_only)

    def stores(self, root):
        return super().stores(root.parent)


@planted("test_an_engine_recognises_what_it_wrote", lives_catch=False)
class RecognisesNothing(PlantedEngine):
    def recognises(self, root):
        return False


@planted("test_an_engine_recognises_what_it_wrote", lives_catch=False)
class RecognisesAnyDirectory(PlantedEngine):
    def recognises(self, root):
        return super().recognises(root) or root.is_dir()


@planted("test_nobody_recognises_what_another_engine_wrote", lives_catch=False)
class RecognisesTheStoresOfOthers(PlantedEngine):
    def recognises(self, root):
        return super().recognises(root) or any(root.glob("*/*/*"))


@planted("test_a_checkpoint_is_a_database_of_its_own", lives_catch=False)
class GivesItselfForACheckpoint(WrappedDatabase):
    """The copy is the same rows, not rows that are the same."""

    def checkpoint(self, target):
        self.inner.checkpoint(target)
        self.inner._siblings[target].namespaces = self.inner._stored.namespaces


@planted("test_a_checkpoint_is_a_database_of_its_own")
class CopiesOneNamespace(WrappedDatabase):
    def checkpoint(self, target):
        self.inner.checkpoint(target)
        copied = self.inner._siblings[target].namespaces
        for name in list(copied):
            if name != "default":
                del copied[name]


@planted("test_an_existing_target_is_left_alone", lives_catch=False)
class CopiesOverWhatIsThere(WrappedDatabase):
    def checkpoint(self, target):
        self.inner._siblings.pop(target, None)
        self.inner.checkpoint(target)


@planted("test_everything_after_close_says_so", lives_catch=False)
class ReadsAfterClose(WrappedNamespace):
    def get(self, key):
        try:
            return self.inner.get(key)
        except StoreClosedError:
            return None


@planted(
    "test_everything_after_close_says_so",
    "test_close_frees_the_store_under_open_scans_and_snapshots",
    lives_catch=False,
)
class EndsScansAtClose(WrappedNamespace):
    """As if there were no more rows."""

    def scan(self, lo=None, hi=None, *, reverse=False):
        return self.until_closed(self.inner.scan(lo, hi, reverse=reverse))

    def until_closed(self, scan):
        with suppress(StoreClosedError):
            yield from scan


@planted("test_everything_after_close_says_so", lives_catch=False)
class SyncsAfterClose(WrappedDatabase):
    def sync(self):
        with suppress(StoreClosedError):
            self.inner.sync()


@planted("test_everything_after_close_says_so", lives_catch=False)
class DoesNotCloseTwice(WrappedDatabase):
    closed = False

    def close(self):
        if self.closed:
            raise StoreClosedError(f"{self.path} has been closed")
        self.closed = True
        self.inner.close()


@planted("test_a_closed_snapshot_is_over", lives_catch=False)
class NeverEndsASnapshot(WrappedSnapshot):
    def close(self):
        pass


@planted("test_close_frees_the_store_under_open_scans_and_snapshots", lives_catch=False)
class StaysHeldByItsScans(WrappedDatabase):
    """A store whose snapshots are alive is not let go of."""

    def __init__(self, inner, owner):
        super().__init__(inner, owner)
        self.taken = False

    def snapshot(self):
        self.taken = True
        return super().snapshot()

    def close(self):
        self.inner.close()
        if self.taken:
            writer = self.inner
            self.inner._stored.holder = lambda: writer


@planted("test_a_fork_is_told_and_its_parent_goes_on", lives_catch=False)
class ReadsInAFork(WrappedNamespace):
    def get(self, key):
        try:
            return self.inner.get(key)
        except ForkedHandleError:
            return None


@planted("test_unknown_options_are_refused", lives_catch=False)
class TakesAnyOption(PlantedEngine):
    def __init__(self, options=None):
        super().__init__({} if isinstance(options, dict) else options)


@planted("test_a_batch_that_is_wrong_anywhere_writes_nothing", lives_catch=False)
class WrapsItsErrors(WrappedDatabase):
    """In a type that the SPI does not name."""

    def write(self, batch):
        try:
            self.inner.write(batch)
        except TypeError as error:
            raise UnsupportedError(str(error)) from error
