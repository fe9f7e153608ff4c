"""A table of rows, through the SPI of an engine and through the bare binding below the engine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from kstore_core.discovery.registry import make_engine
from kstore_core.engine import Durability, Rows

STORE = "bench"
NAMESPACE = "default"


class Table(ABC):
    """A table of rows of bytes. ``put`` and ``get`` are as short as the interface allows."""

    put: Callable[[bytes, bytes], object]
    get: Callable[[bytes], bytes | None]

    @abstractmethod
    def put_many(self, keys: list[bytes], values: list[Any]) -> None:
        """Write rows with ascending keys in one call."""

    @abstractmethod
    def settle(self) -> None:
        """Flush the written rows. Call this once, before the first read."""

    @abstractmethod
    def read(self, *, reverse: bool) -> int:
        """Read every key and value, and return the number of rows."""

    @abstractmethod
    def seek(self, key: bytes, count: int) -> int:
        """Read at most ``count`` rows from ``key`` on, and return the number of rows."""

    @abstractmethod
    def close(self) -> None: ...


class SpiTable(Table):
    """A table through the SPI, which is all that kstore_core sees of an engine."""

    def __init__(self, engine: str, root: Path) -> None:
        self.engine = make_engine(engine)
        self.root = root
        self._open()

    def _open(self) -> None:
        self.database = self.engine.open(self.root, STORE)
        self.rows = self.database.namespace(NAMESPACE)
        self.get = self.rows.get
        write = self.database.write
        self.put = lambda key, value: write({NAMESPACE: Rows([key], [value])})

    def put_many(self, keys: list[bytes], values: list[Any]) -> None:
        self.database.write({NAMESPACE: Rows(keys, values)})

    def settle(self) -> None:
        self.database.close()
        self._open()

    def read(self, *, reverse: bool) -> int:
        count = 0
        for keys, values in self.rows.scan(reverse=reverse):
            for _ in zip(keys, values, strict=True):
                count += 1
        return count

    def seek(self, key: bytes, count: int) -> int:
        found = 0
        for keys, values in self.rows.scan(key):
            for _ in zip(keys, values, strict=True):
                found += 1
                if found == count:
                    return found
        return found

    def close(self) -> None:
        self.database.close()


class RocksDictTable(Table):
    """A table through ``rocksdict``, with the options of kstore's engine."""

    def __init__(self, root: Path) -> None:
        from rocksdict import WriteBatch

        self.new_batch = WriteBatch
        self.engine = make_engine("rocksdb")
        self.root = root
        self._open()

    def _open(self) -> None:
        self.database = self.engine.open(self.root, STORE)
        rows: Any = self.database.namespace(NAMESPACE)
        self.native = rows.native
        self.put = self.native.put
        self.get = self.native.get

    def put_many(self, keys: list[bytes], values: list[Any]) -> None:
        batch = self.new_batch(raw_mode=True)
        put = batch.put
        for key, value in zip(keys, values, strict=True):
            put(key, value)
        self.native.write(batch)

    def settle(self) -> None:
        self.database.close()
        self._open()

    def read(self, *, reverse: bool) -> int:
        rows = self.native.iter()
        (rows.seek_to_last if reverse else rows.seek_to_first)()
        move = rows.prev if reverse else rows.next
        count = 0
        while rows.valid():
            rows.key()
            rows.value()
            move()
            count += 1
        return count

    def seek(self, key: bytes, count: int) -> int:
        rows = self.native.iter()
        rows.seek(key)
        found = 0
        while found < count and rows.valid():
            rows.key()
            rows.value()
            rows.next()
            found += 1
        return found

    def close(self) -> None:
        self.database.close()


class LmdbTable(Table):
    """A table through ``lmdb`` without fsync.

    Each write has a transaction of its own, and all reads share one transaction.
    """

    def __init__(self, root: Path) -> None:
        import lmdb

        root.mkdir(parents=True)
        self.environment = lmdb.open(str(root), map_size=2**34, max_dbs=1, sync=False)
        self.rows = self.environment.open_db(NAMESPACE.encode())
        self.put = self._put

    def _put(self, key: bytes, value: bytes) -> None:
        with self.environment.begin(self.rows, write=True) as transaction:
            transaction.put(key, value)

    def put_many(self, keys: list[bytes], values: list[Any]) -> None:
        with self.environment.begin(self.rows, write=True) as transaction:
            put = transaction.put
            for key, value in zip(keys, values, strict=True):
                put(key, value)

    def settle(self) -> None:
        self.reader = self.environment.begin(self.rows)
        self.get = self.reader.get

    def read(self, *, reverse: bool) -> int:
        cursor = self.reader.cursor()
        count = 0
        for _ in cursor.iterprev() if reverse else cursor.iternext():
            count += 1
        return count

    def seek(self, key: bytes, count: int) -> int:
        cursor = self.reader.cursor()
        cursor.set_range(key)
        return sum(1 for _ in islice(cursor.iternext(), count))

    def close(self) -> None:
        self.environment.close()


class DictTable(Table):
    """A table in a dict, with a sorted list of its keys for scans."""

    def __init__(self, root: Path) -> None:
        self.rows: dict[bytes, Any] = {}
        self.put = self.rows.__setitem__
        self.get = self.rows.get

    def put_many(self, keys: list[bytes], values: list[Any]) -> None:
        self.rows.update(zip(keys, values, strict=True))

    def settle(self) -> None:
        self.keys: Sequence[bytes] = sorted(self.rows)

    def read(self, *, reverse: bool) -> int:
        rows, count = self.rows, 0
        for key in reversed(self.keys) if reverse else self.keys:
            rows[key]
            count += 1
        return count

    def seek(self, key: bytes, count: int) -> int:
        start = bisect_left(self.keys, key)
        found = self.keys[start : start + count]
        for key in found:
            self.rows[key]
        return len(found)

    def close(self) -> None:
        self.rows.clear()


BINDINGS: dict[str, Callable[[Path], Table]] = {
    "memory": DictTable,
    "lmdb": LmdbTable,
    "rocksdb": RocksDictTable,
}


class Batches(ABC):
    """A writer of batches to several namespaces, with a given durability and kstore's options."""

    @abstractmethod
    def __init__(self, root: Path, names: Iterable[str], durability: Durability) -> None: ...

    @abstractmethod
    def write(self, batch: Mapping[str, Rows]) -> None:
        """Put all rows of a batch in one atomic write."""

    @abstractmethod
    def get(self, name: str, key: bytes) -> bytes | None:
        """Return the value that was put for a key of a namespace."""

    @abstractmethod
    def close(self) -> None: ...


class RocksDictBatches(Batches):
    """A writer that writes each batch as a ``WriteBatch`` of ``rocksdict``."""

    def __init__(self, root: Path, names: Iterable[str], durability: Durability) -> None:
        from rocksdict import WriteBatch

        from kstore_rocksdb.options import write_options

        self.new_batch = WriteBatch
        self.database = make_engine("rocksdb").open(root, STORE, durability=durability)
        self.families: dict[str, Any] = {name: self.database.namespace(name) for name in names}
        family: Any = self.database.namespace(NAMESPACE)
        self.native = family.native
        self.options = write_options(durability)

    def write(self, batch: Mapping[str, Rows]) -> None:
        native = self.new_batch(raw_mode=True)
        put = native.put
        for name, rows in batch.items():
            native.set_default_column_family(self.families[name].handle)
            for key, value in zip(rows.keys, rows.values, strict=True):
                put(key, value)
        self.native.write(native, self.options)

    def get(self, name: str, key: bytes) -> bytes | None:
        value: bytes | None = self.families[name].native.get(key)
        return value

    def close(self) -> None:
        self.database.close()


class LmdbBatches(Batches):
    """A writer that writes each batch in a transaction, with an fsync at the level ``"power"``."""

    def __init__(self, root: Path, names: Iterable[str], durability: Durability) -> None:
        import lmdb

        root.mkdir()
        synced = durability == "power"
        self.environment = lmdb.open(
            str(root), map_size=2**34, max_dbs=64, sync=synced, metasync=synced
        )
        self.handles = {name: self.environment.open_db(name.encode()) for name in names}

    def write(self, batch: Mapping[str, Rows]) -> None:
        with self.environment.begin(write=True) as transaction:
            put = transaction.put
            for name, rows in batch.items():
                handle = self.handles[name]
                values: list[Any] = rows.values
                for key, value in zip(rows.keys, values, strict=True):
                    put(key, value, db=handle)

    def get(self, name: str, key: bytes) -> bytes | None:
        with self.environment.begin() as transaction:
            return transaction.get(key, db=self.handles[name])

    def close(self) -> None:
        self.environment.close()


BATCHES: dict[str, type[Batches]] = {"lmdb": LmdbBatches, "rocksdb": RocksDictBatches}
