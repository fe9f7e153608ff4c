"""Workloads that do the same work with a store and with the bare engine, on the same bytes."""

from __future__ import annotations

import random
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kstore_core import open_state, stores
from kstore_core.discovery.registry import make_engine

ENGINES = ("memory", "lmdb", "rocksdb")
HEADERS = [("trace-id", b"0123456789abcdef"), ("source", b"web"), ("schema", b"v1")]
VALUE = random.Random(0).randbytes(100)

KEY_VALUE = {
    "plain": stores.key_value,
    "timestamped": stores.timestamped_key_value,
    "headers": stores.timestamped_key_value_with_headers,
}
VERSIONED = {
    "versioned": stores.versioned_key_value,
    "versioned_headers": stores.versioned_key_value_with_headers,
}


def shuffled_keys(count: int) -> list[bytes]:
    """Return keys of 16 bytes in random order."""
    keys = [b"%016d" % number for number in range(count)]
    random.Random(1).shuffle(keys)
    return keys


def open_lmdb(root: Path, namespace: str) -> tuple[Any, Any]:
    """Open an LMDB environment and a database in it, with kstore's options but without fsync."""
    import lmdb

    from kstore_lmdb.options import LMDBOptions

    options = LMDBOptions()
    root.mkdir(parents=True)
    environment = lmdb.open(
        str(root),
        map_size=options.map_size_bytes,
        max_dbs=options.max_namespaces,
        max_readers=options.max_readers,
        sync=False,
    )
    return environment, environment.open_db(namespace.encode())


class Raw:
    """A dict that is sorted for each scan, and the base of the bindings of other engines."""

    put: Callable[[bytes, bytes], object]
    get: Callable[[bytes], bytes | None]

    def __init__(self, root: Path, namespace: str) -> None:
        self.rows: dict[bytes, bytes] = {}
        self.put = self.rows.__setitem__
        self.get = self.rows.get

    def flush(self) -> None:
        """Flush the written rows."""

    def read_all(self) -> int:
        """Read all rows, and return their number."""
        count = 0
        for _ in sorted(self.rows.items()):
            count += 1
        return count

    @contextmanager
    def writing(self) -> Iterator[tuple[Callable[..., Any], Callable[..., Any]]]:
        """Yield ``get`` and ``put``, which share a transaction if the binding has transactions."""
        yield self.get, self.put

    def close(self) -> None:
        """Close the files."""


class RawRocksDB(Raw):
    """RocksDB's binding with the options of kstore's engine."""

    def __init__(self, root: Path, namespace: str) -> None:
        self._database: Any = make_engine("rocksdb").open(root, "raw")
        self.native = self._database.namespace(namespace).native
        self.put = self.native.put
        self.get = self.native.get

    def flush(self) -> None:
        self._database.sync()
        self.native.flush()

    def read_all(self) -> int:
        rows = self.native.iter()
        rows.seek_to_first()
        count = 0
        while rows.valid():
            rows.key()
            rows.value()
            rows.next()
            count += 1
        return count

    def close(self) -> None:
        self._database.close()


class RawLMDB(Raw):
    """LMDB's binding with kstore's options, without fsync. One transaction makes all reads."""

    def __init__(self, root: Path, namespace: str) -> None:
        self._environment, self._rows = open_lmdb(root, namespace)
        self.put = self._put
        self.flush()

    def flush(self) -> None:
        """Begin a new transaction for reads, which sees all committed rows."""
        self._reader = self._environment.begin(self._rows)
        self.get = self._reader.get

    def read_all(self) -> int:
        count = 0
        for _ in self._reader.cursor():
            count += 1
        return count

    @contextmanager
    def writing(self) -> Iterator[tuple[Callable[..., Any], Callable[..., Any]]]:
        with self._environment.begin(self._rows, write=True) as transaction:
            yield transaction.get, transaction.put

    def _put(self, key: bytes, value: bytes) -> None:
        with self._environment.begin(self._rows, write=True) as transaction:
            transaction.put(key, value)

    def close(self) -> None:
        self._environment.close()


RAW: dict[str, type[Raw]] = {"memory": Raw, "lmdb": RawLMDB, "rocksdb": RawRocksDB}


class Workload:
    """A store and a bare engine with the same rows, in a temporary directory."""

    def __init__(self, engine: str, count: int) -> None:
        self.scratch = Path(tempfile.mkdtemp(prefix="kstore-bench-"))
        self.keys = shuffled_keys(count)
        self.probes = random.Random(2).sample(self.keys, count)
        self.state = open_state(self.scratch / "0_0", engine=make_engine(engine))
        self.engine = engine

    def close(self) -> None:
        self.raw.close()
        self.state.close()
        shutil.rmtree(self.scratch, ignore_errors=True)

    raw: Raw


class KeyValueWorkload(Workload):
    """A key-value store of one format."""

    def __init__(self, engine: str, format_name: str, count: int) -> None:
        super().__init__(engine, count)
        self.spec = KEY_VALUE[format_name]("s")
        self.store = self.state.open(self.spec)
        self.more: dict[str, Any] = {}
        if self.spec.format.timestamped:
            self.more["timestamp"] = 1_700_000_000_000
        if self.spec.format.headers:
            self.more["headers"] = HEADERS
        self.raw = RAW[engine](self.scratch / "raw", self.spec.format.namespace)
        self.put()
        self.state.commit()
        self.row = self.store.table.get(self.keys[0])
        self.raw_put()
        self.flush()

    def flush(self) -> None:
        """Move the rows of both sides to tables on disk."""
        self.raw.flush()
        if self.engine == "rocksdb":
            self.store.table.rows.database.sync()
            self.store.table.rows.base.native.flush()

    def put(self) -> None:
        put, more = self.store.put, self.more
        for key in self.keys:
            put(key, VALUE, **more)

    def put_and_commit(self) -> None:
        self.put()
        self.state.commit({("t", 0): 1})

    def raw_put(self) -> None:
        """Put all rows, in one transaction if the binding has transactions."""
        row = self.row
        with self.raw.writing() as (_, put):
            for key in self.keys:
                put(key, row)

    def raw_put_each(self) -> None:
        """Put all rows, each in a transaction of its own."""
        put, row = self.raw.put, self.row
        for key in self.keys:
            put(key, row)

    def get(self) -> None:
        get = self.store.get
        for key in self.probes:
            get(key)

    def raw_get(self) -> None:
        get = self.raw.get
        for key in self.probes:
            get(key)

    def scan(self) -> None:
        for _ in self.store.all():
            pass

    def raw_scan(self) -> None:
        self.raw.read_all()

    def put_some(self) -> None:
        put, more = self.store.put, self.more
        for key in self.keys[:2000]:
            put(key, VALUE, **more)

    def scan_some(self) -> None:
        scan = self.store.range
        for key in self.keys[:2000]:
            for _ in scan(key, key):
                pass

    def put_and_scan_in_turn(self) -> None:
        put, scan, more = self.store.put, self.store.range, self.more
        for key in self.keys[:2000]:
            put(key, VALUE, **more)
            for _ in scan(key, key):
                pass


class VersionedWorkload(Workload):
    """A versioned store with ten versions of each key. A tenth of the writes are out of order."""

    def __init__(self, engine: str, format_name: str, count: int) -> None:
        super().__init__(engine, count // 10)
        spec = VERSIONED[format_name]("s", 86_400_000)
        self.store = self.state.open(spec)
        self.more = {"headers": HEADERS} if spec.format.headers else {}
        random_ = random.Random(3)
        self.puts = [
            (key, 1_000_000_000 + number * 2000 - (random_.randrange(40_000_000) if late else 0))
            for number, (key, late) in enumerate(
                (random_.choice(self.keys), random_.random() < 0.1) for _ in range(count)
            )
        ]
        newest = max(timestamp for _, timestamp in self.puts)
        self.reads = [
            (random_.choice(self.keys), newest - random_.randrange(80_000_000))
            for _ in range(count // 5)
        ]
        self.written = record(self.store.table.rows, self.put)
        self.state.commit()
        self.raw = RAW[engine](self.scratch / "raw", spec.format.namespace)
        self.raw_put()
        self.raw.flush()
        self.read = record(self.store.table.rows, self.get_as_of)
        self.again = 0

    def put(self) -> None:
        put, more = self.store.put, self.more
        for key, timestamp in self.puts:
            put(key, VALUE, timestamp=timestamp, **more)

    def put_and_commit(self) -> None:
        """Make the same writes in a new store."""
        self.again += 1
        spec = type(self.store.spec)(
            f"again-{self.again}",
            self.store.spec.shape,
            self.store.spec.format,
            history_retention_ms=self.store.spec.history_retention_ms,
            segment_interval_ms=self.store.spec.segment_interval_ms,
        )
        put, more = self.state.open(spec).put, self.more
        begin = time.perf_counter()
        for key, timestamp in self.puts:
            put(key, VALUE, timestamp=timestamp, **more)
        self.state.commit()
        self.seconds = time.perf_counter() - begin

    def raw_put(self) -> None:
        with self.raw.writing() as (get, put):
            for key, value in self.written:
                if value is None:
                    get(key)
                else:
                    put(key, value)

    def get_as_of(self) -> None:
        get = self.store.get
        for key, as_of in self.reads:
            get(key, as_of)

    def raw_get_as_of(self) -> None:
        get = self.raw.get
        for key, _ in self.read:
            get(key)


def record(rows: Any, work: Callable[[], None]) -> list[tuple[bytes, bytes | None]]:
    """Return the reads and writes of rows that ``work`` makes. The value of a read is None."""
    made: list[tuple[bytes, bytes | None]] = []
    get, write = rows.get, rows.write

    def recorded_get(key: bytes) -> bytes | None:
        made.append((key, None))
        return get(key)

    def recorded_write(writes: list[Any]) -> None:
        made.extend((key, value or b"") for key, value, _ in writes)
        write(writes)

    rows.get, rows.write = recorded_get, recorded_write
    try:
        work()
    finally:
        rows.get, rows.write = get, write
    return made


def seconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def ratio(ours: Callable[[], object], theirs: Callable[[], object], rounds: int = 5) -> float:
    """Return the least time of ``ours`` over the least time of ``theirs``, in alternating runs."""
    pairs = [(seconds(ours), seconds(theirs)) for _ in range(rounds)]
    return min(a for a, _ in pairs) / min(b for _, b in pairs)
