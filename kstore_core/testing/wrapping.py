"""An engine that passes every call to another engine. Subclasses change some of the calls."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from kstore_core.engine import Chunk, Database, Durability, Engine, Namespace, Rows, Snapshot

__all__ = ["WrappedDatabase", "WrappedEngine", "WrappedNamespace", "WrappedSnapshot"]


class WrappedNamespace(Namespace):
    """A namespace that passes every call to another namespace. ``owner`` is the wrapping engine."""

    def __init__(self, inner: Namespace, owner: Any) -> None:
        self.inner = inner
        self.name = inner.name
        self.owner = owner

    def get(self, key: bytes) -> bytes | None:
        return self.inner.get(key)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        return self.inner.get_many(keys)

    def scan(
        self, lo: bytes | None = None, hi: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[Chunk]:
        return self.inner.scan(lo, hi, reverse=reverse)

    def approximate_count(self) -> int:
        return self.inner.approximate_count()


class WrappedSnapshot(Snapshot):
    """A snapshot that passes every call to another snapshot."""

    def __init__(self, inner: Snapshot, owner: Any) -> None:
        self.inner = inner
        self.owner = owner

    def namespace(self, name: str) -> Namespace:
        namespace: Namespace = self.owner.namespace_type(self.inner.namespace(name), self.owner)
        return namespace

    def close(self) -> None:
        self.inner.close()


class WrappedDatabase(Database):
    """A database that passes every call to another database."""

    def __init__(self, inner: Database, owner: Any) -> None:
        self.inner = inner
        self.path = inner.path
        self.owner = owner

    def namespaces(self) -> list[str]:
        return self.inner.namespaces()

    def namespace(self, name: str) -> Namespace:
        namespace: Namespace = self.owner.namespace_type(self.inner.namespace(name), self.owner)
        return namespace

    def drop_namespace(self, name: str) -> None:
        self.inner.drop_namespace(name)

    def write(self, batch: Mapping[str, Rows]) -> None:
        self.inner.write(batch)

    def write_large(self, namespace: str, rows: Rows) -> bool:
        return self.inner.write_large(namespace, rows)

    def load(
        self, namespace: str, chunks: Iterable[tuple[Sequence[bytes], Sequence[bytes]]]
    ) -> int:
        return self.inner.load(namespace, chunks)

    def snapshot(self) -> Snapshot:
        snapshot: Snapshot = self.owner.snapshot_type(self.inner.snapshot(), self.owner)
        return snapshot

    def checkpoint(self, target: Path) -> None:
        self.inner.checkpoint(target)

    def sync(self) -> None:
        self.inner.sync()

    def close(self) -> None:
        self.inner.close()


class WrappedEngine(Engine):
    """An engine with the name and capabilities of another engine, to which it passes every call.

    Attributes
    ----------
    inner : Engine
        The wrapped engine.
    database_type, namespace_type, snapshot_type : class
        The classes that wrap the databases, namespaces and snapshots of the wrapped engine.
    """

    database_type: ClassVar[type[WrappedDatabase]] = WrappedDatabase
    namespace_type: ClassVar[type[WrappedNamespace]] = WrappedNamespace
    snapshot_type: ClassVar[type[WrappedSnapshot]] = WrappedSnapshot

    def __init__(self, inner: Engine) -> None:
        self.inner = inner
        self.options = inner.options
        self.name = inner.name  # type: ignore[misc]
        self.capabilities = inner.capabilities

    def stores(self, root: Path) -> list[str]:
        return self.inner.stores(root)

    def recognises(self, root: Path) -> bool:
        return self.inner.recognises(root)

    def open(self, root: Path, store: str, **named: Any) -> Database:
        return self.database_type(self.inner.open(root, store, **named), self)

    def file_faults(self, root: Path, store: str, child: str | None = None) -> Iterator[str]:
        return self.inner.file_faults(root, store, child)

    def parents(self, root: Path) -> list[str]:
        return self.inner.parents(root)

    def make_parent(self, root: Path, store: str, *, durability: Durability = "process") -> bool:
        return self.inner.make_parent(root, store, durability=durability)

    def drop_parent(self, root: Path, store: str) -> bool:
        return self.inner.drop_parent(root, store)

    def children(self, root: Path, store: str) -> list[str]:
        return self.inner.children(root, store)

    def open_child(self, root: Path, store: str, child: str, **named: Any) -> Database:
        return self.database_type(self.inner.open_child(root, store, child, **named), self)

    def drop_child(self, root: Path, store: str, child: str) -> None:
        self.inner.drop_child(root, store, child)

    def rename_child(self, root: Path, store: str, child: str, name: str) -> None:
        self.inner.rename_child(root, store, child, name)
