"""Snapshots of committed data, which readers use while a transactional writer works.

Each commit ends with a new snapshot. Readers in all threads share the snapshot and never wait for
the writer. docs/transactions.md has the guarantees.
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
        The engine's snapshots of the databases, by the names of their stores; empty after the
        close.
    users : int
        The number of leases, plus one while the snapshot is the newest.
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
    """The owner of the newest committed snapshot of a state directory."""

    def __init__(self) -> None:
        # The lock guards only the counters. Snapshots are taken and closed without the lock,
        # because the garbage collector may close a view while a thread holds the lock.
        self._lock = RLock()
        self._newest = CommittedSnapshot({})

    def publish(self, databases: Mapping[str, Database]) -> None:
        """Take a snapshot of these databases, and make it the newest snapshot."""
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
        """Decrease the snapshot's number of users, and close the snapshot if no users are left."""
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
    """The owner of the open view of the newest snapshot. All queries share this view.

    It takes longer to open stores than to look up a key. So all queries of one snapshot use the
    stores of one view.
    """

    def __init__(self) -> None:
        self._lock = RLock()
        self._newest: _CountedView | None = None

    def lease(self, lease: SnapshotLease, open_view: Callable[[SnapshotLease], Any]) -> LeasedView:
        """Lease the view of a snapshot. Open a new view if the open view shows another snapshot."""
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
        """Stop sharing the open view, and close the view after its last lease is released."""
        with self._lock:
            before, self._newest = self._newest, None
        self.release(before)

    def release(self, counted: _CountedView | None) -> None:
        """Decrease the view's number of users, and close the view if no users are left."""
        if counted is None:
            return
        with self._lock:
            counted.users -= 1
            unused = not counted.users
        if unused:
            counted.view.close()


class CommittedEngine(Engine):
    """An engine that opens the stores in a snapshot, and opens other stores read-only from disk."""

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
    """A database as it was at a committed snapshot.

    The committed snapshot owns and closes the engine's snapshot.
    """

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
            f"{self.path} cannot be written through a view, because a view is read-only. Write to "
            "the state directory that returned the view"
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
