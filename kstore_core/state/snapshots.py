"""Snapshots of committed data, which readers use while a transactional writer works.

Each commit takes a snapshot at its end. Any number of readers, in any thread, share the snapshot
and never wait for the writer. docs/transactions.md has the guarantees.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from threading import RLock
from typing import Any, NoReturn

from kstore_core.engine import Database, Engine, Namespace, Rows, Snapshot
from kstore_core.errors import UnsupportedError

__all__ = [
    "CommittedEngine",
    "CommittedSnapshot",
    "CommittedSnapshots",
    "LeasedView",
    "SharedView",
    "SnapshotLease",
]


class CommittedSnapshot:
    """The snapshots of several stores' databases, taken after one commit.

    Attributes
    ----------
    stores : dict of str to Database
        The databases at the commit, by the store's name, until the snapshot is closed.
    users : int
        The number of leases, plus one while it is the newest snapshot.
    """

    def __init__(self, databases: Mapping[str, Database]) -> None:
        self.stores: dict[str, Database] = {}
        self._snapshots = ExitStack()
        with ExitStack() as made:
            for name, database in databases.items():
                snapshot = made.enter_context(database.snapshot())
                self.stores[name] = _SnapshotDatabase(database, snapshot)
            self._snapshots = made.pop_all()
        self.users = 1

    def close(self) -> None:
        """Close the engine's snapshots."""
        self._snapshots.close()


class SnapshotLease:
    """A lease on a committed snapshot. The snapshot stays open until the lease is released."""

    def __init__(self, snapshots: CommittedSnapshots, snapshot: CommittedSnapshot) -> None:
        self.snapshot = snapshot
        self._snapshots: CommittedSnapshots | None = snapshots

    def release(self) -> None:
        """Release the lease. The last release closes the snapshot. A second call does nothing."""
        snapshots, self._snapshots = self._snapshots, None
        if snapshots is not None:
            snapshots.release(self.snapshot)


class CommittedSnapshots:
    """The newest committed snapshot of a state directory."""

    def __init__(self) -> None:
        # Guards the counters only: a snapshot is taken and closed outside of it, because the
        # garbage collector may close a view while the lock is held.
        self._lock = RLock()
        self._newest = CommittedSnapshot({})

    def publish(self, databases: Mapping[str, Database]) -> None:
        """Take a snapshot of these databases and give it to all later readers."""
        snapshot = CommittedSnapshot(databases)
        with self._lock:
            before, self._newest = self._newest, snapshot
        self.release(before)

    def lease(self) -> SnapshotLease:
        """Lease the newest snapshot."""
        with self._lock:
            self._newest.users += 1
            return SnapshotLease(self, self._newest)

    def release(self, snapshot: CommittedSnapshot) -> None:
        """Decrease the number of users, and close the snapshot after the last."""
        with self._lock:
            snapshot.users -= 1
            unused = not snapshot.users
        if unused:
            snapshot.close()


class LeasedView:
    """A lease on a shared view. The view stays open until the lease is released.

    Attributes
    ----------
    view : StateDirectory
    """

    def __init__(self, shared: SharedView, counted: _CountedView) -> None:
        self.view = counted.view
        self._shared = shared
        self._counted: _CountedView | None = counted

    def release(self) -> None:
        """Release the lease. A second call does nothing."""
        counted, self._counted = self._counted, None
        if counted is not None:
            self._shared.release(counted)


class _CountedView:
    def __init__(self, view: Any, snapshot: CommittedSnapshot) -> None:
        self.view = view
        self.snapshot = snapshot
        self.users = 1


class SharedView:
    """One open view of the newest snapshot, shared by single queries.

    Opening stores takes longer than a lookup, so queries of one snapshot share the open stores.
    """

    def __init__(self) -> None:
        self._lock = RLock()
        self._newest: _CountedView | None = None

    def lease(self, lease: SnapshotLease, open_view: Callable[[SnapshotLease], Any]) -> LeasedView:
        """Lease the view of a snapshot. Open a new view if the newest shows another snapshot."""
        with self._lock:
            before = self._newest
            if before is not None and before.snapshot is lease.snapshot:
                before.users += 1
                leased = LeasedView(self, before)
                spare = lease.release
            else:
                self._newest = _CountedView(open_view(lease), lease.snapshot)
                self._newest.users += 1
                leased = LeasedView(self, self._newest)
                spare = partial(self.release, before)
        spare()
        return leased

    def forget(self) -> None:
        """Stop leasing the view, and close the view after its last release."""
        with self._lock:
            before, self._newest = self._newest, None
        self.release(before)

    def release(self, counted: _CountedView | None) -> None:
        """Decrease the number of users, and close the view after the last."""
        if counted is None:
            return
        with self._lock:
            counted.users -= 1
            unused = not counted.users
        if unused:
            counted.view.close()


class CommittedEngine(Engine):
    """An engine that opens the stores of a snapshot, and all other stores read-only."""

    def __init__(self, engine: Engine, snapshot: CommittedSnapshot) -> None:
        self.name = engine.name  # type: ignore[misc]
        self.options = engine.options
        self.capabilities = engine.capabilities
        self._engine = engine
        self._snapshot = snapshot

    def stores(self, root: Path) -> list[str]:
        return self._engine.stores(root)

    def open(self, root: Path, store: str, **_: Any) -> Database:
        if store in self._snapshot.stores:
            return self._snapshot.stores[store]
        return self._engine.open(root, store, read_only=True)

    def parents(self, root: Path) -> list[str]:
        return self._engine.parents(root)

    def children(self, root: Path, store: str) -> list[str]:
        return self._engine.children(root, store)

    def open_child(self, root: Path, store: str, child: str, **_: Any) -> Database:
        return self._engine.open_child(root, store, child, read_only=True)


class _SnapshotDatabase(Database):
    """A database at the time of the snapshot. The committed snapshot owns and closes it."""

    def __init__(self, database: Database, snapshot: Snapshot) -> None:
        self.path = database.path
        self._names = database.namespaces()
        self._snapshot = snapshot

    def namespaces(self) -> list[str]:
        return list(self._names)

    def namespace(self, name: str) -> Namespace:
        return self._snapshot.namespace(name)

    def _refuse(self) -> NoReturn:
        raise UnsupportedError(
            f"{self.path} is open as a committed snapshot, which is read-only; write through the "
            "state directory that the snapshot was taken of"
        )

    def drop_namespace(self, name: str) -> None:
        self._refuse()

    def write(self, batch: Mapping[str, Rows]) -> None:
        self._refuse()

    def load(
        self, namespace: str, chunks: Iterable[tuple[Sequence[bytes], Sequence[bytes]]]
    ) -> int:
        self._refuse()

    def snapshot(self) -> Snapshot:
        self._refuse()

    def checkpoint(self, target: Path) -> None:
        self._refuse()

    def sync(self) -> None:
        """Do nothing, because the writer has already synced the committed data if needed."""

    def close(self) -> None:
        """Do nothing, because the committed snapshot closes the engine's snapshot."""
