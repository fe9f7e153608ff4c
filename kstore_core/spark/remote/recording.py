"""An engine that records what is written to a state directory.

The recorded operations of an epoch are uploaded as a file of changes. A worker that replays the
files of changes in order gets the same rows, offsets and notes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kstore_core.engine import Database, Engine, Namespace, Rows, Snapshot

__all__ = ["Operation", "RecordingEngine"]


@dataclass(frozen=True, slots=True)
class Operation:
    """A change of a state directory.

    Attributes
    ----------
    kind : str
        The name of the method of :class:`~kstore_core.engine.Engine` or
        :class:`~kstore_core.engine.Database` that made the change.
    store : str
        The name of the store.
    child : str, optional
        The name of the segment, which is one of the store's databases; None if the store is one
        database.
    name : str
        The namespace that was dropped, or the new name of the segment.
    batch : mapping of str to Rows
        The changes of the rows by namespace.
    """

    kind: str
    store: str
    child: str | None = None
    name: str = ""
    batch: Mapping[str, Rows] = field(default_factory=dict)


class RecordingEngine(Engine):
    """An engine that passes each call to another engine, and records the changes.

    Attributes
    ----------
    operations : list of Operation
        The changes so far, in the order of their calls.
    """

    def __init__(self, engine: Engine) -> None:
        self.name = engine.name  # type: ignore[misc]
        self.options = engine.options
        self.capabilities = engine.capabilities
        self.operations: list[Operation] = []
        self._engine = engine

    def stores(self, root: Path) -> list[str]:
        return self._engine.stores(root)

    def recognises(self, root: Path) -> bool:
        return self._engine.recognises(root)

    def open(self, root: Path, store: str, **options: Any) -> Database:
        database = self._engine.open(root, store, **options)
        return _RecordingDatabase(database, self.operations, store)

    def file_faults(self, root: Path, store: str, child: str | None = None) -> Iterator[str]:
        return self._engine.file_faults(root, store, child)

    def parents(self, root: Path) -> list[str]:
        return self._engine.parents(root)

    def make_parent(self, root: Path, store: str, **options: Any) -> bool:
        made = self._engine.make_parent(root, store, **options)
        if made:
            self.operations.append(Operation("make_parent", store))
        return made

    def drop_parent(self, root: Path, store: str) -> bool:
        dropped = self._engine.drop_parent(root, store)
        if dropped:
            self.operations.append(Operation("drop_parent", store))
        return dropped

    def children(self, root: Path, store: str) -> list[str]:
        return self._engine.children(root, store)

    def open_child(self, root: Path, store: str, child: str, **options: Any) -> Database:
        database = self._engine.open_child(root, store, child, **options)
        return _RecordingDatabase(database, self.operations, store, child)

    def drop_child(self, root: Path, store: str, child: str) -> None:
        self._engine.drop_child(root, store, child)
        self.operations.append(Operation("drop_child", store, child))

    def rename_child(self, root: Path, store: str, child: str, name: str) -> None:
        self._engine.rename_child(root, store, child, name)
        self.operations.append(Operation("rename_child", store, child, name))


class _RecordingDatabase(Database):
    """A database that records each successful write."""

    def __init__(
        self,
        database: Database,
        operations: list[Operation],
        store: str,
        child: str | None = None,
    ) -> None:
        self.path = database.path
        self._database = database
        self._operations = operations
        self._at = (store, child)

    def namespaces(self) -> list[str]:
        return self._database.namespaces()

    def namespace(self, name: str) -> Namespace:
        return self._database.namespace(name)

    def drop_namespace(self, name: str) -> None:
        self._database.drop_namespace(name)
        self._operations.append(Operation("drop_namespace", *self._at, name))

    def write(self, batch: Mapping[str, Rows]) -> None:
        self._database.write(batch)
        self._record(batch)

    def load(
        self, namespace: str, chunks: Iterable[tuple[Sequence[bytes], Sequence[bytes]]]
    ) -> int:
        def recorded() -> Iterator[tuple[Sequence[bytes], Sequence[bytes]]]:
            for keys, values in chunks:
                self._record({namespace: Rows(list(keys), list(values))})
                yield keys, values

        return self._database.load(namespace, recorded())

    def snapshot(self) -> Snapshot:
        return self._database.snapshot()

    def checkpoint(self, target: Path) -> None:
        self._database.checkpoint(target)

    def sync(self) -> None:
        self._database.sync()

    def close(self) -> None:
        self._database.close()

    def _record(self, batch: Mapping[str, Rows]) -> None:
        copied = {
            name: Rows(list(rows.keys), list(rows.values), list(rows.deleted_ranges))
            for name, rows in batch.items()
        }
        self._operations.append(Operation("write", *self._at, batch=copied))
