"""The state directory: one task's stores, the record that is being worked on, and the commit."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from kstore_core.codec import Headers
from kstore_core.engine import DURABILITY_LEVELS, Durability, Engine
from kstore_core.errors import (
    ForkedHandleError,
    SpecError,
    StateError,
    StoreClosedError,
    UnsupportedError,
)
from kstore_core.lock import DirectoryLock, recorded_engine
from kstore_core.offsets import (
    Partition,
    StoreRecord,
    check_integer,
    check_offsets,
    check_partition,
    common_offsets,
    read_record,
)
from kstore_core.open_store import OpenStore
from kstore_core.registry import make_engine
from kstore_core.segments.storage import read_children
from kstore_core.spec import StoredSpec, StoreSpec, check_name, is_name
from kstore_core.staging import Staging
from kstore_core.tables import OFFSETS
from kstore_core.typed.values import RecordSlot
from kstore_core.types import RecordContext, Time, to_millis

__all__ = ["DEFAULT_UNCOMMITTED_MAX_BYTES", "StateDirectory", "open_state"]

DEFAULT_UNCOMMITTED_MAX_BYTES = 64 * 1024 * 1024


def open_state(
    path: str | os.PathLike[str],
    *,
    engine: str | Engine | None = None,
    durability: Durability = "process",
    transactional: bool = False,
    read_only: bool = False,
    options: Mapping[str, Any] | None = None,
    changelog: None = None,
    uncommitted_max_bytes: int = DEFAULT_UNCOMMITTED_MAX_BYTES,
    lock_timeout_s: float = 0,
    migrate_on_read: bool = True,
) -> StateDirectory:
    """Open a state directory: a Kafka Streams task directory, or a new one.

    Leaving ``with open_state(…)`` normally commits; leaving it by an exception discards what is not
    committed. So does :meth:`StateDirectory.close` without a commit before it.

    Parameters
    ----------
    path : path-like
        The directory; made where it is missing, unless ``read_only``.
    engine : str or Engine, optional
        A name, or an object. Left out: what the directory records, else RocksDB where it holds a
        Kafka layout.
    durability : {"process", "power", "changelog"}
        What a commit survives: SIGKILL; and a power cut; or what Kafka's own stores survive, where
        a crash may lose a tail, data and offsets together.
    transactional : bool
        Never write before the commit: a write beyond ``uncommitted_max_bytes`` is refused.
    read_only : bool
        Write nothing but LMDB's table of readers, lock nothing; may be used while another process
        writes, and sees the stores as they were committed when each was opened.
    options : mapping, optional
        The engine's; with an engine object they belong to its constructor.
    changelog : None
        Not built yet.
    uncommitted_max_bytes : int
        Keys and values that may be staged; beyond it they are written before the commit, without
        offsets. Negative for no limit.
    lock_timeout_s : float
        How long to wait for another writer.
    migrate_on_read : bool
        Whether a lookup moves a row that is still in an older format, as Kafka's does; writes move
        rows in any case. See docs/upgrade.md.

    Raises
    ------
    EngineLockedError
        Another writer holds the directory.
    SpecError
        No engine is given and the directory tells none, or it tells another one; an unknown option.
    StateError
        ``read_only`` and there is no such directory.
    UnknownEngineError, EngineUnavailableError
        The engine is not installed, or cannot be loaded.
    """
    if changelog is not None:
        raise UnsupportedError("changelogs are not built yet; see docs/compatibility.md")
    if durability not in DURABILITY_LEVELS:
        raise ValueError(f"durability is one of {', '.join(DURABILITY_LEVELS)}, not {durability!r}")
    if not os.fspath(path):
        raise SpecError("the path of the state directory is empty")
    root = Path(path).resolve()
    if engine is None:
        engine = _engine_of(root)
    elif isinstance(engine, str) and (known := recorded_engine(root)) not in (None, engine):
        raise SpecError(
            f"{root} was written with the engine {known!r}, so {engine!r} would see none of it; "
            "leave the engine out, or use another directory"
        )
    made = make_engine(engine, options)
    able = made.capabilities
    staging = Staging(
        uncommitted_max_bytes,
        transactional,
        max_key_bytes=able.max_key_bytes,
        empty_keys=able.empty_keys,
    )
    lock = None
    if able.persistent:
        if read_only and not root.is_dir():
            raise StateError(f"no state directory at {root}")
        if not read_only:
            try:
                root.mkdir(parents=True, exist_ok=True)
            except (FileExistsError, NotADirectoryError) as error:
                raise StateError(f"{root} is not a directory: {error}") from error
            lock = DirectoryLock(root, made.name, lock_timeout_s)
    return StateDirectory(
        root,
        made,
        lock,
        staging,
        durability=durability,
        read_only=read_only,
        migrate_on_read=migrate_on_read,
    )


def _engine_of(root: Path) -> str:
    recorded = recorded_engine(root)
    if recorded is not None:
        return recorded
    # Kafka's layouts: rocksdb/<store> for key-value stores, <store>/<store>.<ms> for segments.
    if any(root.glob("rocksdb/*/CURRENT")) or any(root.glob("*/*/CURRENT")):
        return "rocksdb"
    raise SpecError(
        f"no engine is given, and {root} holds nothing that tells one; "
        'pass engine="rocksdb" or another that `kstore engines` lists'
    )


class StateDirectory:
    """The stores of one task, committed together. Made by :func:`open_state`.

    Attributes
    ----------
    path : Path
    engine : Engine
    read_only : bool
    """

    def __init__(
        self,
        path: Path,
        engine: Engine,
        lock: DirectoryLock | None,
        staging: Staging,
        *,
        durability: Durability,
        read_only: bool,
        migrate_on_read: bool,
    ) -> None:
        self.path = path
        self.engine = engine
        self.read_only = read_only
        self._lock = lock
        self._staging = staging
        self._durability = durability
        self._migrate_on_read = migrate_on_read
        self._slot = RecordSlot()
        self._stores: dict[str, OpenStore] = {}
        self._open = True
        self._pid = os.getpid()

    def __repr__(self) -> str:
        state = "open" if self._open else "closed"
        return f"<StateDirectory {str(self.path)!r} on {self.engine.name}, {state}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None and self._open and not self.read_only and self._pid == os.getpid():
                self.commit()
        finally:
            self.close()

    def __del__(self) -> None:
        if getattr(self, "_open", False) and self._pid == os.getpid():
            try:
                warnings.warn(
                    f"{self!r} was never closed", ResourceWarning, source=self, stacklevel=1
                )
            finally:
                self.close()

    @property
    def staged_bytes(self) -> int:
        """Keys and values that are written and not committed, in bytes."""
        return self._staging.staged_bytes

    def open(self, spec: StoreSpec, *, migrate_on_read: bool | None = None) -> Any:
        """Open a store, making it where it is missing; opening it again gives the same object.

        A store on disk of an older format is upgraded row by row: see docs/upgrade.md.

        Parameters
        ----------
        migrate_on_read : bool, optional
            Of this store; left out, the directory's.

        Returns
        -------
        KeyValueStore, VersionedStore, WindowStore or SessionStore

        Raises
        ------
        SpecError
            The store on disk is of another shape or segment interval, or the name is open already
            with another spec or another ``migrate_on_read``.
        FormatDowngradeError
            The store on disk is of a newer format.
        InconsistentStateError
            It is of another kind, or of two older formats at once.
        StateError
            The directory is read-only and has no such store.
        """
        self._check()
        if not isinstance(spec, StoreSpec):
            raise TypeError(f"a store is opened by a StoreSpec of kstore_core.stores, not {spec!r}")
        known = self._stores.get(spec.name)
        if known is None:
            known = OpenStore(
                spec,
                self.path,
                self.engine,
                self._staging,
                self._slot,
                durability=self._durability,
                read_only=self.read_only,
                migrate_on_read=(
                    self._migrate_on_read if migrate_on_read is None else migrate_on_read
                ),
            )
            self._stores[spec.name] = known
        elif known.spec != spec:
            raise SpecError(
                f"the store {spec.name!r} is open already with another spec: {known.spec}"
            )
        elif migrate_on_read not in (None, known.migrate_on_read):
            raise SpecError(
                f"the store {spec.name!r} is open already with "
                f"migrate_on_read={known.migrate_on_read}; close the state directory first"
            )
        return known.store

    def stores(self) -> list[str]:
        """The names of the stores that are open or on disk, sorted."""
        self._check()
        found = {*self.engine.stores(self.path), *self.engine.parents(self.path)}
        return sorted({*self._stores, *filter(is_name, found)})

    def stored_spec(self, name: str) -> StoredSpec | None:
        """What the directory says of a store; None where Kafka wrote it, or it is new.

        Raises
        ------
        StateError
            There is no such store.
        """
        return self._record_of(name).spec

    def offsets(self, name: str | None = None) -> dict[Partition, int]:
        """The last committed offset of each partition whose effects are contained.

        Over all stores the least one; a store without offsets contains nothing, so beside it there
        are none. With a name, that store's.
        """
        self._check()
        if name is not None:
            return self._record_of(name).known_offsets
        return common_offsets([self._record_of(store) for store in self.stores()])

    def _record_of(self, name: str) -> StoreRecord:
        self._check()
        if name in self._stores:
            return self._stores[name].home.record
        check_name(name)
        if name in self.engine.parents(self.path):
            return read_children(self.engine, self.path, name)
        if name not in self.engine.stores(self.path):
            raise StateError(
                f"{self.path} has no store {name!r}; it has: {', '.join(self.stores()) or 'none'}"
            )
        database = self.engine.open(self.path, name, read_only=True)
        try:
            if OFFSETS not in database.namespaces():
                return StoreRecord()
            return read_record(database.namespace(OFFSETS))
        finally:
            database.close()

    @contextlib.contextmanager
    def record(
        self,
        *,
        topic: str | None = None,
        partition: int = -1,
        offset: int = -1,
        timestamp: Time | None = None,
        headers: Any = (),
    ) -> Iterator[RecordContext]:
        """The input record that the writes within this block come from.

        Positions move on to it. It lends its timestamp and headers to a key-value put that gives
        none; a versioned put says its own.

        Raises
        ------
        TypeError, ValueError
            A topic that is not a str, a number that is not an int or does not fit, a naive time.
        """
        self._check()
        if topic is not None:
            check_partition(topic, partition)
        check_integer("an offset", offset, -1, 2**63)
        context = RecordContext(
            topic,
            int(partition),
            int(offset),
            None if timestamp is None else to_millis(timestamp),
            headers if isinstance(headers, Headers) else Headers(headers),
        )
        before, self._slot.current = self._slot.current, context
        try:
            yield context
        finally:
            self._slot.current = before

    def commit(self, offsets: Mapping[Partition, int | None] | None = None) -> None:
        """Write all staged rows, and with them offsets, position and stream time.

        Returns when they are as durable as asked. A store's rows and offsets are one atomic batch;
        of a store on disk in segments, each segment's rows are, and offsets follow all rows. Where
        one store fails, what it has staged stays staged, and a later commit writes it; after a full
        disk it opens the database anew, which ends the scans that are open.

        Parameters
        ----------
        offsets : mapping of (topic, partition) to int or None, optional
            The last offset that is now contained. Left out, those of before are kept; None for one
            forgets it; an empty mapping forgets all.

        Raises
        ------
        TypeError, ValueError
            Offsets that could not be read back; nothing was written.
        StorageFullError, EngineError
            The engine failed; nothing of that store's batch was written.
        """
        self._check()
        if self.read_only:
            raise UnsupportedError(f"{self.path} was opened with read_only=True")
        check_offsets(offsets)
        for store in self._stores.values():
            store.commit(offsets)

    def close(self) -> None:
        """Close the stores and let the next writer in; what is not committed is discarded.

        Closing twice is fine, and finishes a close that was interrupted. In a fork of the process
        that opened it, it lets go of what was inherited and changes nothing.
        """
        self._open = False
        with contextlib.ExitStack() as stack:
            if self._lock is not None:
                stack.callback(self._lock.release)
            for store in self._stores.values():
                stack.callback(store.close)

    def _check(self) -> None:
        if not self._open:
            raise StoreClosedError(f"the state directory {self.path} has been closed")
        if os.getpid() != self._pid:
            raise ForkedHandleError(
                f"{self.path} was opened by process {self._pid} and is used in {os.getpid()}, a "
                "fork of it; open the state directory in the process that uses it"
            )
