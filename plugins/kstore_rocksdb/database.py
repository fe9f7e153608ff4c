"""An open RocksDB database, which has namespaces, atomic batches, snapshots and checkpoints."""

from __future__ import annotations

import shutil
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from rocksdict import Checkpoint, DbClosedError, IngestExternalFileOptions, Rdict, WriteBatch

from kstore_core.engine import Durability, Rows
from kstore_core.engine.handles import HandleDatabase, check_droppable, leak
from kstore_core.engine.paths import check_target
from kstore_core.system.interrupts import interruptible, uninterrupted
from kstore_rocksdb import loading
from kstore_rocksdb.batch import native_batch
from kstore_rocksdb.errors import Reason, exists_already, forked, reraise, translating
from kstore_rocksdb.files.readonly import copy_scratch
from kstore_rocksdb.forks import DATABASES
from kstore_rocksdb.namespace import FamilyNamespace
from kstore_rocksdb.options import OFFSETS, NativeOptions, write_options
from kstore_rocksdb.snapshot import RocksDBSnapshot, SnapshotNamespace
from kstore_rocksdb.stalls import Stalls, is_stall

__all__ = ["RocksDBDatabase"]

_BUSY_WAIT_S = 0.001
_UNLOGGED = write_options("changelog")
_FREE_FOR_FLUSH = 4
"""A scan begins a flush only if the disk has room for this many times the size of all buffers."""


class RocksDBDatabase(HandleDatabase):
    """An open RocksDB database. A read-only database reads a temporary copy of its directory.

    The database holds a lock while it writes rows, and while it creates or drops a namespace. A
    snapshot is created one column family after the other. The snapshot is consistent, because the
    database holds the lock meanwhile. Lookups and scans never wait for the lock.

    Parameters
    ----------
    path : Path
        The directory of the database.
    root : Rdict
        The handle of the library ``rocksdict``, which :meth:`close` closes.
    families : iterable of str
        The names of the column families.
    options : NativeOptions
        The options of the database.
    durability : {"process", "power", "changelog"}
        The level that determines what a write survives.
    scratch : Path, optional
        The temporary directory that RocksDB has open. The database is writable if None.
    on_close : callable
        A function without parameters, which :meth:`close` calls after it has closed the files. A
        forked process does not call the function.
    """

    engine = "rocksdb"
    databases = DATABASES
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
        self._is_closed = False  # from here on, ``__del__`` warns if the database was not closed
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
        """Return the names of all namespaces."""
        self._check()
        return list(self._namespaces)

    def namespace(self, name: str) -> FamilyNamespace:
        """Return the namespace with this name. A writable database creates a missing namespace."""
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
        """Remove a namespace and its rows. Open scans of the namespace raise StoreClosedError."""
        self._check(writing=True)
        check_droppable(name)
        with self._lock, uninterrupted():
            self._check()
            namespace = self._namespaces[name]
            with translating(f"drop namespace {name!r}", self.path):
                self._root.drop_column_family(name)
            del self._namespaces[name]
            namespace.end(translating.dropped(self.path, name))

    def write(self, batch: Mapping[str, Rows]) -> None:
        """Write a batch of changes to one or more existing namespaces atomically."""
        self._check(writing=True)
        with self._lock, uninterrupted():
            self._check()
            namespaces = [self._namespaces[name] for name in batch]
            for namespace in namespaces:
                namespace.changes += 1
            try:
                with translating("write a batch", self.path):
                    attempt = 0
                    while not self._write_unless_stalled(namespaces, batch.values()):
                        with interruptible():  # the stalled write has written nothing
                            self._stalls.wait(attempt)
                        attempt += 1
            finally:
                for namespace in namespaces:
                    namespace.renew()
                    namespace.changes += 1

    def write_large(self, namespace: str, rows: Rows) -> bool:
        """Write many rows as table files, which is faster than a batch with a call per row."""
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
        """Load rows with strictly ascending keys, and return their number."""
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
            taken = RocksDBSnapshot(parts, translating.closed(self.path))
            self._snapshots.update(parts.values())
            self._snapshots.add(taken)
            return taken

    def checkpoint(self, target: Path) -> None:
        """Write a consistent copy of the database to ``target``.

        If possible, the table files of the copy are hard links.
        """
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
                if self.read_only:
                    return
                if self._durability == "changelog":
                    self._flush()
                    # Idle iterators would keep the flushed rows in memory.
                    for namespace in self._namespaces.values():
                        namespace.renew()
                else:
                    self._root.flush_wal(True)

    def close(self) -> None:
        """Flush and close the database. A second close does nothing."""
        DATABASES.notice_fork()
        failure: Exception | None = None
        with self._lock, uninterrupted():
            if self._is_closed:
                return
            if self._closing is None:
                families = [namespace.native for namespace in self._flush_order()]
                self._closing = [*families, self._root]
            self._end(translating.closed(self.path))
            while self._closing:  # after an interrupt, the next close continues
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
        """Make the database unusable in a forked process, without freeing a native object."""
        if self._ended is None:
            self._lock = threading.RLock()  # the parent process may hold the old lock
            leak(self._root)
            self._is_closed = True
            self._end(forked(self.path), leaked=True)

    def _end(self, reason: Reason, *, leaked: bool = False) -> None:
        self._ended = reason
        for namespace in self._namespaces.values():
            namespace.end(reason, leaked=leaked)
        for snapshot in list(self._snapshots):
            snapshot.end(reason, leaked=leaked)
        self._namespaces = {}

    def _create(self, name: str) -> None:
        """Create a column family, unless an earlier, interrupted call has created it."""
        try:
            self._root.create_column_family(name, self._options.family(name))
        except Exception as error:
            if not exists_already(error):
                raise

    def _adopt(self, name: str) -> None:
        native = self._root.get_column_family(name)
        handle = self._root.get_column_family_handle(name)
        tables = (self._scratch or self.path) if self._options.maps_tables else None
        self._namespaces[name] = FamilyNamespace(
            name, self.path, native, handle, tables, weakref.WeakMethod(self._begin_flush)
        )

    def _flush_order(self) -> list[FamilyNamespace]:
        """Return the namespaces in the order in which they must be flushed: ``offsets`` is last.

        So if the process crashes between two flushes, the stored offsets are not ahead of the rows.
        """
        return sorted(self._namespaces.values(), key=lambda namespace: namespace.name == OFFSETS)

    def _flush(self) -> None:
        for namespace in self._flush_order():
            namespace.native.flush()

    def _begin_flush(self) -> None:
        """Begin a flush of all namespaces in the background, unless another thread is writing.

        The ``flush`` of the library ``rocksdict`` would flush only one namespace, and might wait
        for a compaction.
        """
        if self.read_only or not self._lock.acquire(blocking=False):
            return
        try:
            with uninterrupted(), suppress(Exception):  # the next write raises the same error
                self._check()
                # A failed flush may lose rows that no log contains. So a scan begins a flush only
                # if the disk has enough space.
                free = shutil.disk_usage(self.path).free
                if free < _FREE_FOR_FLUSH * self._options.write_buffers_bytes:
                    return
                with self._options.full_buffers():
                    self._root.write(WriteBatch(raw_mode=True), _UNLOGGED)
        finally:
            self._lock.release()

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
        """Write one row again, so that the sequence number of the database is no longer 0.

        The number is 0 if all rows are from ingested table files. If a snapshot has the sequence
        number 0, a compaction loses every row.
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
            namespace = self.namespace(name)
            namespace.changes += 1
            try:
                with translating(f"load {name!r}", self.path):
                    namespace.native.ingest_external_file(files, options)
            finally:
                namespace.renew()
                namespace.changes += 1


def _close(native: Rdict, *, flush: bool) -> None:
    """Flush a handle if ``flush`` is True, wait until no thread uses the handle, and close it.

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
