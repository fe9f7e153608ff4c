"""Makes the state directories of this folder: ``python -m tests.data.make ENGINE NUMBER``.

Each is a state directory as this version of kstore leaves it, with a store of every kind and one
in the middle of every upgrade, beside what its stores hold, as JSON. They are made once and kept
for ever: a later version of kstore opens them all. When bytes on disk change, or a format is added,
make another one, with the next number.
"""

from __future__ import annotations

import json
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import closing
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from kstore_core import Windowed, open_state, stores
from kstore_core.discovery.registry import make_engine
from kstore_core.engine import Database, Engine
from kstore_core.spec import StoreSpec
from kstore_core.testing.kinds import EDGES, KINDS, Kind

HERE = Path(__file__).parent
RETENTION_MS, INTERVAL_MS = 10_000, 1_000
SEGMENT_MS = 5_000
"""Of windows and sessions: two segments, each of them files of its own on RocksDB."""
SESSION_MS = 400
KEYS = [b"", b"\x00", b"k", b"k\x00", b"key-1", b"key-2", b"key-3", b"\xff\xff"]
HEADERS = [("trace-id", b"\x00\xff"), ("trace-id", None), ("", b"")]


class Plan(NamedTuple):
    """The store that a fixture begins with, and the one that it ends with."""

    first: StoreSpec
    last: StoreSpec


def plans() -> dict[str, Plan]:
    """The stores by name."""
    found = {}
    for kind in KINDS:
        name = _name(kind)
        found[name] = Plan(spec_of(kind, name), spec_of(kind, name))
    for older, newer in EDGES:
        name = f"{_name(older)}.to.{_name(newer)}"
        found[name] = Plan(spec_of(older, name), spec_of(newer, name))
    many = stores.window("window_duplicates", RETENTION_MS, 10, True, SEGMENT_MS)
    return {**found, many.name: Plan(many, many)}


def _name(kind: Kind) -> str:
    return kind.format.name if kind.shape in ("key_value", "versioned") else str(kind)


def spec_of(kind: Kind, name: str) -> StoreSpec:
    if kind.shape == "key_value":
        return kind.spec(name)
    interval = INTERVAL_MS if kind.shape == "versioned" else SEGMENT_MS
    return kind.spec(name, RETENTION_MS, interval)


def write(root: Path, engine: str) -> None:
    """The stores, each left with old rows, moved ones, new ones and deleted ones."""
    with open_state(root, engine=engine) as state:
        for plan in plans().values():
            store = state.open(plan.first)
            for number, key in enumerate(KEYS):
                put(store, key, b"v%d" % number if number else b"", 1000 * number)
                if plan.first.format.versioned and number % 2:
                    put(store, key, b"w%d" % number, 1000 * number + 1500)
                if plan.first.retain_duplicates:
                    put(store, key, b"another", 1000 * number)
            with state.record(topic="input", partition=2, offset=7, timestamp=9000):
                delete(store, KEYS[0], 0)
                put(store, KEYS[1], b"again", 1000)
        state.commit({("changelog", 0): 41})
    with open_state(root, engine=engine) as state:
        for first, last in plans().values():
            if first == last:
                continue
            store = state.open(last)
            read(store, KEYS[2], 2000)
            put(store, KEYS[4], b"new", 9500)
            if not last.format.versioned:
                delete(store, KEYS[5], 5000)
        state.commit({("changelog", 0): 42})


def put(store: Any, key: bytes, value: bytes, time: int) -> None:
    """Put a row; ``time`` is its timestamp, its window's start, its session's end."""
    spec = store.spec
    more: dict[str, Any] = {"timestamp": time} if spec.format.timestamped else {}
    if spec.format.headers:
        more["headers"] = HEADERS
    if spec.shape == "session":
        store.put(session(key, time), value, **more)
    elif spec.shape == "window":
        store.put(key, value, window_start=time, **more)
    else:
        store.put(key, value, **more)


def delete(store: Any, key: bytes, time: int) -> None:
    shape = store.spec.shape
    if shape == "session":
        store.remove(session(key, time))
    elif shape == "window":
        store.put(key, None, window_start=time)
    elif shape == "versioned":
        store.delete(key, timestamp=9000)
    else:
        store.delete(key)


def read(store: Any, key: bytes, time: int) -> Any:
    shape = store.spec.shape
    if shape == "session":
        return store.fetch_session(key, time, time + SESSION_MS)
    if shape == "window":
        return store.fetch_one(key, time)
    return store.get(key)


def session(key: bytes, time: int) -> Windowed[bytes]:
    return Windowed(key, time, time + SESSION_MS)


def contents(store: Any) -> list[Any]:
    """What a store holds, as JSON: key, window or session, and the record or its history."""
    shape = store.spec.shape
    if shape == "versioned":
        return [[key.hex(), [record_of(store, v) for v in store.history(key)]] for key in KEYS]
    if shape == "key_value":
        return [[key.hex(), record_of(store, value)] for key, value in store.all()]
    rows = store.all() if shape == "window" else store.find_sessions_between(None, None)
    return [[w.key.hex(), w.start, w.end, record_of(store, value)] for w, value in rows]


def record_of(store: Any, record: Any) -> dict[str, Any]:
    """A record as JSON, bytes in hex."""
    value_format = store.spec.format
    if not (value_format.timestamped or value_format.headers):
        return {"value": record.hex()}
    bare = record.value if value_format.timestamped else record.aggregation
    found = {"value": bare.hex()}
    if value_format.timestamped:
        found["timestamp"] = record.timestamp
    if value_format.versioned:
        found["valid_to"] = record.valid_to
    if value_format.headers:
        found["headers"] = [[key, None if v is None else v.hex()] for key, v in record.headers]
    return found


def row_counts(engine: Engine, root: Path, store: str) -> dict[str, int]:
    """How many rows each namespace has, those of all its segments together."""
    counts: dict[str, int] = {}
    for database in _databases(engine, root, store):
        with closing(database):
            for space in database.namespaces():
                rows = sum(len(keys) for keys, _ in database.namespace(space).scan())
                counts[space] = counts.get(space, 0) + rows
    return dict(sorted(counts.items()))


def _databases(engine: Engine, root: Path, store: str) -> Iterator[Database]:
    if store in engine.parents(root):
        for child in engine.children(root, store):
            yield engine.open_child(root, store, child, read_only=True)
    else:
        yield engine.open(root, store, read_only=True)


def describe(root: Path, engine: str) -> Iterator[dict[str, Any]]:
    """A line about the directory, then one for each store."""
    made = make_engine(engine)
    yield {"kstore": version("kstore"), "engine": engine}
    with open_state(root, engine=made, read_only=True) as state:
        for name, (first, last) in plans().items():
            rows = row_counts(made, root, name)
            store = state.open(last)
            yield {
                "store": name,
                "formats": [first.format.name, last.format.name],
                "rows": rows,
                "offsets": sorted([*p, offset] for p, offset in store.offsets().items()),
                "contents": contents(store),
            }


def without_logs(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Leave out what RocksDB logs for people: it is most of the bytes and no data."""
    return None if Path(member.name).name.startswith("LOG") else member


def main(engine: str, number: str) -> None:
    target = HERE / f"{engine}-{number}.tar.gz"
    if target.exists():
        sys.exit(f"{target.name} is there already; it is kept for ever, so take the next number")
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch) / f"{engine}-{number}"
        write(root, engine)
        lines = [json.dumps(line) + "\n" for line in describe(root, engine)]
        with tarfile.open(target, "w:gz") as archive:
            archive.add(root, root.name, filter=without_logs)
    target.with_suffix("").with_suffix(".jsonl").write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
