"""What is committed, for readers beside a transactional writer: moments, and an engine of one.

A moment is taken at the end of each commit and is looked at by any number of readers, in any
thread, who neither wait for the writer nor are waited for. docs/transactions.md tells the promises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from threading import RLock
from typing import Any, NoReturn

from kstore_core.engine import Database, Durability, Engine, Namespace, Rows, Snapshot
from kstore_core.errors import UnsupportedError

__all__ = ["CommittedEngine", "Hold", "LeasedView", "Moment", "Moments", "SharedView"]


class Moment:
    """One moment of the databases of several stores.

    Parameters
    ----------
    databases : mapping of str to Database
        By the store's name.

    Attributes
    ----------
    stores : dict of str to Database
        The databases as they are now, for as long as the moment lasts.
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
        """End it."""
        self._snapshots.close()


class Hold:
    """What keeps a moment from ending, until it is released."""

    def __init__(self, moments: Moments, moment: Moment) -> None:
        self.moment = moment
        self._moments: Moments | None = moments

    def release(self) -> None:
        """Let go of the moment; the last one who does ends it. Releasing twice is fine."""
        moments, self._moments = self._moments, None
        if moments is not None:
            moments.release(self.moment)


class Moments:
    """The newest moment of a state directory, which is held here until there is another one."""

    def __init__(self) -> None:
        # For counting only, never while a moment is taken or ended; the collector may close a view
        # while it is held.
        self._lock = RLock()
        self._newest = Moment({})

    def publish(self, databases: Mapping[str, Database]) -> None:
        """Have those who come from now on see what these databases hold at this moment."""
        moment = Moment(databases)
        with self._lock:
            before, self._newest = self._newest, moment
        self.release(before)

    def hold(self) -> Hold:
        """Keep the newest moment."""
        with self._lock:
            self._newest.users += 1
            return Hold(self, self._newest)

    def release(self, moment: Moment) -> None:
        """Count one user less of a moment."""
        with self._lock:
            moment.users -= 1
            over = not moment.users
        if over:
            moment.close()


class LeasedView:
    """A shared view, until it is released.

    Attributes
    ----------
    view : StateDirectory
    """

    def __init__(self, shared: SharedView, counted: _Counted) -> None:
        self.view = counted.view
        self._shared = shared
        self._counted: _Counted | None = counted

    def release(self) -> None:
        """Let go of the view. Releasing twice is fine."""
        counted, self._counted = self._counted, None
        if counted is not None:
            self._shared.release(counted)


class _Counted:
    """A view, its moment, and how many use it."""

    def __init__(self, view: Any, moment: Moment) -> None:
        self.view = view
        self.moment = moment
        self.users = 1


class SharedView:
    """One open view of the newest moment, for many who each read it once.

    Opening stores takes longer than a lookup, so it is not done for each of them.
    """

    def __init__(self) -> None:
        self._lock = RLock()
        self._newest: _Counted | None = None

    def hold(self, hold: Hold, open_view: Callable[[Hold], Any]) -> LeasedView:
        """The view of a moment, which is opened where the one that there is shows another."""
        with self._lock:
            before = self._newest
            if before is not None and before.moment is hold.moment:
                before.users += 1
                held = LeasedView(self, before)
                spare = hold.release
            else:
                self._newest = _Counted(open_view(hold), hold.moment)
                self._newest.users += 1
                held = LeasedView(self, self._newest)
                spare = partial(self.release, before)
        spare()
        return held

    def forget(self) -> None:
        """Close the view once nobody uses it: there is another moment, or the end has come."""
        with self._lock:
            before, self._newest = self._newest, None
        self.release(before)

    def release(self, counted: _Counted | None) -> None:
        """Count one user less."""
        if counted is None:
            return
        with self._lock:
            counted.users -= 1
            over = not counted.users
        if over:
            counted.view.close()


class CommittedEngine(Engine):
    """An engine that reads a moment. A store that is not part of it is opened read-only.

    Parameters
    ----------
    engine : Engine
        The writer's.
    moment : Moment
    """

    def __init__(self, engine: Engine, moment: Moment) -> None:
        self.name = engine.name  # type: ignore[misc]
        self.options = engine.options
        self.capabilities = engine.capabilities
        self._engine = engine
        self._moment = moment

    def stores(self, root: Path) -> list[str]:
        return self._engine.stores(root)

    def open(
        self, root: Path, store: str, *, durability: Durability = "process", read_only: bool = False
    ) -> Database:
        if store in self._moment.stores:
            return self._moment.stores[store]
        return self._engine.open(root, store, read_only=True)

    def parents(self, root: Path) -> list[str]:
        return self._engine.parents(root)

    def children(self, root: Path, store: str) -> list[str]:
        return self._engine.children(root, store)

    def open_child(
        self,
        root: Path,
        store: str,
        child: str,
        *,
        durability: Durability = "process",
        read_only: bool = False,
    ) -> Database:
        return self._engine.open_child(root, store, child, read_only=True)


class _SnapshotDatabase(Database):
    """A database as it was. It belongs to its moment, not to who opens it."""

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
            f"{self.path} is seen as it was committed, and only read; use the state that writes it"
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
        """Nothing: what is committed was made as durable as asked."""

    def close(self) -> None:
        """Nothing: the moment's end closes the snapshot."""
