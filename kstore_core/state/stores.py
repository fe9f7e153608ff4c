"""The base class of a state directory, which opens, restores and measures its stores."""

from __future__ import annotations

import threading
import weakref
from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from kstore_core.changelog import Changelog
from kstore_core.changelog.protocol import check_changelog
from kstore_core.engine import Engine
from kstore_core.errors import SpecError, StateError
from kstore_core.layers import CacheBudget
from kstore_core.layers.current_record import CurrentRecord
from kstore_core.metrics import Metric, MetricsRegistry
from kstore_core.restore.replay import RestoreListener
from kstore_core.restore.rows import Restored
from kstore_core.spec import StoreSpec
from kstore_core.state.changelogs import StateLogs
from kstore_core.state.contents import StateContents
from kstore_core.state.figures import StateFigures
from kstore_core.state.migration_note import check_not_moving
from kstore_core.state.open_store import OpenStore
from kstore_core.state.snapshots import CommittedSnapshots, LeasedView, SharedView
from kstore_core.system.interrupts import uninterrupted
from kstore_core.tables.options import OpenOptions
from kstore_core.tables.staging import Staging

__all__ = ["Held", "StateStores"]


class Held(Protocol):
    """The protocol of a lock or lease that a state directory releases when it is closed."""

    def release(self) -> None:
        """Release the lock or lease. A second call does nothing."""


class StateStores(StateContents):
    """The open stores of one task. This is the base class of a state directory."""

    def __init__(
        self,
        path: Path,
        engine: Engine,
        lock: Held | None,
        staging: Staging,
        cache: CacheBudget,
        *,
        options: OpenOptions,
        metrics: MetricsRegistry,
        partition_time: bool = False,
        logs: StateLogs | None = None,
        on_restore: RestoreListener | None = None,
    ) -> None:
        self.path = path
        self.read_only = options.read_only
        self.engine = engine
        self._lock = lock
        self._staging = staging
        staging.owner = weakref.ref(self)
        self._cache = cache
        self.metrics = metrics
        self._figures = StateFigures(path)
        self._is_measured = False
        self._options = options
        self._honours_partition_time = partition_time
        self._logs = logs or StateLogs()
        self._on_restore = on_restore
        self._current_record = CurrentRecord(str(path))
        self._snapshots = (
            CommittedSnapshots() if staging.transactional and not options.read_only else None
        )
        self._views = SharedView()
        self._stores: dict[str, OpenStore] = {}
        self._opening = threading.RLock()
        self._turn = threading.RLock()
        self._is_open()

    @property
    def staged_bytes(self) -> int:
        """The size of the uncommitted keys and values in bytes; see docs/transactions.md."""
        return self._staging.staged_bytes

    def open(self, spec: StoreSpec, *, migrate_on_read: bool | None = None) -> Any:
        """Open a store, or create it. If the store is already open, return the same object.

        The state directory is not garbage collected as long as the program has a reference to the
        store or to a scan of the store. If the store on disk has an older format, its rows are
        upgraded one by one; see docs/upgrade.md.

        Parameters
        ----------
        migrate_on_read : bool, optional
            The option ``migrate_on_read`` for this store. By default the option of the directory.

        Returns
        -------
        KeyValueStore, VersionedStore, WindowStore or SessionStore

        Raises
        ------
        SpecError
            The store on disk has another shape or segment interval. Or the store is already open
            with another spec or another ``migrate_on_read``.
        FormatDowngradeError
            The store on disk has a newer format.
        InconsistentStateError
            The rows of the store have another shape or two older formats. Or a migration was
            interrupted while it replaced the store.
        StateError
            The directory is read-only and has no such store.
        """
        self._check()
        if not isinstance(spec, StoreSpec):
            raise TypeError(
                f"open() needs a StoreSpec from a function of kstore_core.stores, not {spec!r}"
            )
        with self._opening, uninterrupted():
            self._check()
            known = self._stores.get(spec.name)
            if known is None:
                known = self._open_first(spec, migrate_on_read)
            face = known.face(self)
        if known.spec != spec:
            raise SpecError(
                f"the store {spec.name!r} is already open with another spec: {known.spec}. Pass "
                "this spec, or close the state directory first"
            )
        if migrate_on_read not in (None, known.migrate_on_read):
            raise SpecError(
                f"the store {spec.name!r} is already open with "
                f"migrate_on_read={known.migrate_on_read}. Pass this value, or close the state "
                "directory first"
            )
        return face

    def _open_first(self, spec: StoreSpec, migrate_on_read: bool | None) -> OpenStore:
        options = self._options
        if migrate_on_read is not None:
            options = replace(options, migrate_on_read=migrate_on_read)
        made = self._opened(spec, options)
        self._stores[spec.name] = made
        made.context.view = weakref.WeakMethod(self._lease_view)
        self._publish()
        if spec.metrics is not None and not self._is_measured:
            self.metrics.add(self)
            self._is_measured = True
        return made

    def _opened(self, spec: StoreSpec, options: OpenOptions) -> OpenStore:
        if self.engine.capabilities.persistent:
            check_not_moving(self.path, spec.name)
        log = self._logs.open(spec, self.path, self._options.durability, self._stores)
        try:
            return OpenStore(
                spec,
                self.path,
                self.engine,
                self._staging,
                self._current_record,
                self._cache,
                self._figures.tags,
                options,
                log=log,
                on_restore=self._on_restore,
            )
        except BaseException:
            self._logs.close(log)
            raise

    def restore(
        self,
        spec: StoreSpec,
        changelog: Changelog,
        *,
        listener: RestoreListener | None = None,
    ) -> Restored:
        """Restore a store from a changelog, and commit the restored rows.

        If the store is not open, this method opens it. The restore begins after the last offset of
        the changelog that the store has committed. Each batch of rows is committed with its offset.
        So if a restore is interrupted, the next restore continues after the last committed batch.

        Parameters
        ----------
        spec : StoreSpec
        changelog : Changelog
            One partition of a topic, as a `FileChangelog`, a `KafkaChangelog`, or an object of your
            own class.
        listener : callable, optional
            The callback that is called with the progress of the restore.

        Returns
        -------
        Restored
            The counts of the records and rows, and the restored offsets of the input partitions.

        Raises
        ------
        TypeError
            ``changelog`` is not a Changelog.
        InconsistentStateError
            The changelog begins after the offset that the store has committed, ends before this
            offset, or has lost all its records.
        StateError
            There are uncommitted writes. Or the store already has a changelog. Or the store
            retains duplicates and was already open.
        SpecError
            The changelog has records of a store of another shape, or its partition is negative.
        FormatError, CorruptionError
            The changelog is damaged. The batches before the damage were restored.
        """
        self._check()
        check_changelog(changelog)
        self._check_writable()
        if self.staged_bytes:
            raise StateError(
                f"{self.path} has {self.staged_bytes} bytes of uncommitted writes. Commit them "
                "before the restore, or close the state directory to discard them"
            )
        is_new = spec.name not in self._stores
        self.open(spec)
        with self._turn:
            self._check()
            restored = self._stores[spec.name].restore(changelog, listener, is_new=is_new)
        self._publish()
        return restored

    def _publish(self) -> None:
        """Make the last commit of the stores visible to readers."""
        if self._snapshots is not None:
            stores = list(self._stores.items())
            self._snapshots.publish(
                {name: store.database for name, store in stores if store.database is not None}
            )
            self._views.forget()

    def measure(self) -> Iterable[Metric]:
        """Return the metrics of the stores and of the directory; see docs/metrics.md."""
        return self._figures.read(list(self._stores.values()), self.staged_bytes)

    @abstractmethod
    def _lease_view(self) -> LeasedView:
        """Lease the view of the last commit that queries share."""
