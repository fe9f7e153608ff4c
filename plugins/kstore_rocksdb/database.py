"""An open database, with its namespaces, atomic batches, snapshots and checkpoints."""

from __future__ import annotations

import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from rocksdict import Checkpoint, DbClosedError, IngestExternalFileOptions, Rdict

from kstore_core.engine import Database, Durability, Rows
from kstore_core.engine.handles import check_droppable, leak
from kstore_core.engine.paths import check_target
from kstore_core.errors import UnsupportedError
from kstore_core.system.interrupts import interruptible, uninterrupted
from kstore_rocksdb import loading
from kstore_rocksdb.batch import native_batch
from kstore_rocksdb.errors import (
    Reason,
    closed,
    dropped,
    exists_already,
    forked,
    reraise,
    translating,
)
from kstore_rocksdb.files.readonly import copy_scratch
from kstore_rocksdb.forks import DATABASES
from kstore_rocksdb.namespace import FamilyNamespace
from kstore_rocksdb.options import OFFSETS, NativeOptions, write_options
from kstore_rocksdb.snapshot import RocksDBSnapshot, SnapshotNamespace
from kstore_rocksdb.stalls import Stalls, is_stall

__all__ = ["RocksDBDatabase"]

_BUSY_WAIT_S = 0.001


class RocksDBDatabase(Database):
    """The database in one RocksDB directory, or in a scratch copy of the directory to read it.

    A lock is held while rows or the set of namespaces change. A snapshot captures one column family
    after the other and takes the same lock, so the snapshot is consistent. Lookups and scans take
    no lock.

    Parameters
    ----------
    path : Path
        The database's directory.
    root : Rdict
        The handle of the binding. This object closes the handle.
    scratch : Path or None
        For a read-only database, the directory that RocksDB has open.
    on_close
        A function to call after the files are closed. It is not called in a forked child.
    """

    _is_closed = True

    def __init__(
        self,
        path: Path,
        root: Rdict,
        families: Iterable[str],
        options: NativeOptions,
        *,
        durability: Durability,
        scratch: Path | None = None,
        on_close: Callable[[], object],
    ) -> None:
        self.path = path
        self.read_only = scratch is not None
        self._ended: Reason | None = None
        self._closing: list[Rdict] | None = None
        self._root = root
        self._options = options
        self._durability = durability
        self._stalls = Stalls(root, path, options.write_buffers_bytes)
        self._write_options = write_options(durability)
        self._lock = threading.RLock()
        self._namespaces: dict[str, FamilyNamespace] = {}
        self._snapshots: weakref.WeakSet[RocksDBSnapshot | SnapshotNamespace] = weakref.WeakSet()
        self._scratch = scratch
        self._on_close = on_close
        self._is_closed = False  # from here on the database must be closed
        for name in families:
            self._adopt(name)
        DATABASES.add(self)

    def __repr__(self) -> str:
        kind = "read-only" if self.read_only else self._durability
        return f"RocksDBDatabase({str(self.path)!r}, {kind}{', closed' if self._ended else ''})"

    def __del__(self) -> None:
        if not self._is_closed:
            try:
                warnings.warn(
                    f"{self!r} was never closed", ResourceWarning, stacklevel=2, source=self
                )
            finally:
                self.close()

    def namespaces(self) -> list[str]:
        """Return the names of the namespaces."""
        self._check()
        return list(self._namespaces)

    def namespace(self, name: str) -> FamilyNamespace:
        """Return the namespace of this name. A missing namespace is created if this is writable."""
        self._check()
        found = self._namespaces.get(name)
        if found is not None:
            return found
        if self.read_only:
            raise KeyError(name)
        with self._lock, uninterrupted():
            self._check()
            if name not in self._namespaces:
                with translating(f"create namespace {name!r}", self.path):
                    self._create(name)
                    self._adopt(name)
            return self._namespaces[name]

    def drop_namespace(self, name: str) -> None:
        """Remove a namespace and its rows. Open scans of it raise StoreClosedError.

        Raises
        ------
        UnsupportedError
            The namespace is ``"default"``, which RocksDB cannot drop, or the database is read-only.
        KeyError
            No namespace has this name.
        """
        self._check(writing=True)
        check_droppable(name)
        with self._lock, uninterrupted():
            self._check()
            namespace = self._namespaces[name]
            with translating(f"drop namespace {name!r}", self.path):
                self._root.drop_column_family(name)
            del self._namespaces[name]
            namespace.end(dropped(self.path, name))

    def write(self, batch: Mapping[str, Rows]) -> None:
        """Write to several existing namespaces atomically."""
        self._check(writing=True)
        with self._lock, uninterrupted():
            self._check()
            namespaces = [self._namespaces[name] for name in batch]
            try:
                with translating("write a batch", self.path):
                    attempt = 0
                    while not self._write_unless_stalled(namespaces, batch.values()):
                        with interruptible():  # nothing of the batch was written
                            self._stalls.wait(attempt)
                        attempt += 1
            finally:
                for namespace in namespaces:
                    namespace.renew()

    def write_large(self, namespace: str, rows: Rows) -> bool:
        """Write many rows as a table file, because a batch needs a call for each row."""
        self._check(writing=True)
        if namespace not in self._namespaces:
            raise KeyError(namespace)
        if not rows.keys:
            return True
        loading.load_files(
            [(rows.keys, rows.values)],
            self._options.table_writer(namespace),
            self.path,
            ingest=partial(self._ingest, namespace),
            guard=translating("write rows", self.path),
            deletions=True,
        )
        return True

    def load(
        self, namespace: str, chunks: Iterable[tuple[Sequence[bytes], Sequence[bytes]]]
    ) -> int:
        """Bulk load strictly ascending rows. Many rows are loaded as table files."""
        self._check(writing=True)
        self.namespace(namespace)
        return loading.load(
            chunks,
            self._options.table_writer(namespace),
            self.path,
            write=lambda rows: self.write({namespace: rows}),
            ingest=partial(self._ingest, namespace),
            guard=translating(f"load {namespace!r}", self.path),
        )

    def snapshot(self) -> RocksDBSnapshot:
        """Return a consistent snapshot of all namespaces."""
        self._check()
        with self._lock, uninterrupted():
            self._check()
            if not self.read_only and self._root.latest_sequence_number() == 0:
                self._leave_sequence_zero()
            parts: dict[str, SnapshotNamespace] = {}
            for name, family in self._namespaces.items():
                parts[name] = family.snapshot()
            taken = RocksDBSnapshot(parts, closed(self.path))
            self._snapshots.update(parts.values())
            self._snapshots.add(taken)
            return taken

    def checkpoint(self, target: Path) -> None:
        """Make a consistent copy in ``target``. Its table files are hard links if possible."""
        self._check()
        check_target(target)
        target.parent.mkdir(parents=True, exist_ok=True)
        with self._lock:
            self._check()
            with translating(f"make a checkpoint in {target}", self.path):
                if self._scratch is not None:
                    copy_scratch(self._scratch, target)
                else:
                    Checkpoint(self._root).create_checkpoint(str(target))

    def sync(self) -> None:
        """Make all written rows survive a power cut."""
        self._check()
        with self._lock:
            self._check()
            with translating("sync", self.path):
                if self._durability == "changelog":
                    self._flush()
                    for namespace in (
                        self._namespaces.values()
                    ):  # the rows that idle iterators pin are on disk now
                        namespace.renew()
                elif not self.read_only:
                    self._root.flush_wal(True)

    def close(self) -> None:
        """Flush, then free iterators, snapshots, families and the database in this order."""
        DATABASES.notice_fork()
        failure: Exception | None = None
        with self._lock, uninterrupted():
            if self._is_closed:
                return
            if self._closing is None:
                families = [namespace.native for namespace in self._flush_order()]
                self._closing = [*families, self._root]
            self._end(closed(self.path))
            while self._closing:  # after an interrupt, the next call continues
                try:
                    _close(self._closing[0], flush=not self.read_only and failure is None)
                except Exception as error:  # noqa: BLE001
                    failure = failure or error
                del self._closing[0]
            self._on_close()
            self._is_closed = True
        if failure is not None:
            reraise(failure, "close", self.path)

    def abandon(self) -> None:
        """End all handles in a forked child, without freeing native objects."""
        if self._ended is None:
            self._lock = threading.RLock()  # its holder is not in this process
            leak(self._root)
            self._is_closed = True
            self._end(forked(self.path), leaked=True)

    def _check(self, *, writing: bool = False) -> None:
        DATABASES.notice_fork()
        if self._ended is not None:
            raise self._ended()
        if writing and self.read_only:
            raise UnsupportedError(
                f"rocksdb database {self.path} was opened read-only; open it without read_only=True"
            )

    def _end(self, reason: Reason, *, leaked: bool = False) -> None:
        self._ended = reason
        for namespace in self._namespaces.values():
            namespace.end(reason, leaked=leaked)
        for snapshot in list(self._snapshots):
            snapshot.end(reason, leaked=leaked)
        self._namespaces = {}

    def _create(self, name: str) -> None:
        """Create a column family, unless an earlier call that was interrupted has created it."""
        try:
            self._root.create_column_family(name, self._options.family(name))
        except Exception as error:
            if not exists_already(error):
                raise

    def _adopt(self, name: str) -> None:
        native = self._root.get_column_family(name)
        handle = self._root.get_column_family_handle(name)
        self._namespaces[name] = FamilyNamespace(name, self.path, native, handle)

    def _flush_order(self) -> list[FamilyNamespace]:
        """Return the namespaces in the order of flushes, with the offsets last.

        So after a crash between two flushes the offsets are not ahead of the rows.
        """
        return sorted(self._namespaces.values(), key=lambda namespace: namespace.name == OFFSETS)

    def _flush(self) -> None:
        for namespace in self._flush_order():
            namespace.native.flush()

    def _write_unless_stalled(
        self, namespaces: Iterable[FamilyNamespace], batch: Iterable[Rows]
    ) -> bool:
        try:
            self._root.write(native_batch(namespaces, batch), self._write_options)
        except Exception as error:
            if is_stall(error):
                return False
            raise
        return True

    def _leave_sequence_zero(self) -> None:
        """If all rows were ingested, write one row again, so that the sequence number is not 0.

        Under a snapshot with the sequence number 0, a compaction loses every row.
        """
        for name, namespace in self._namespaces.items():
            row = namespace.first()
            if row is not None:
                self.write({name: Rows([row[0]], [row[1]])})
                return

    def _ingest(self, name: str, files: list[str]) -> None:
        with self._lock, uninterrupted():
            self._check()
            options = IngestExternalFileOptions()
            options.set_move_files(True)
            with translating(f"load {name!r}", self.path):
                self.namespace(name).native.ingest_external_file(files, options)
            self.namespace(name).renew()


def _close(native: Rdict, *, flush: bool) -> None:
    """Flush and close one handle. Wait until no other thread uses the handle.

    A second close does nothing.
    """
    try:
        if flush:
            with suppress(DbClosedError):
                native.flush()
    finally:
        while True:
            try:
                with suppress(DbClosedError):
                    native.close()
            except RuntimeError as error:
                if "borrowed" not in str(error):
                    raise
                time.sleep(_BUSY_WAIT_S)
            else:
                break
