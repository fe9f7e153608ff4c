"""State directories with a store of every kind, and what is done to them."""

from __future__ import annotations

import hashlib
import random
from contextlib import closing
from pathlib import Path
from typing import Any

from kstore_core import Windowed, open_state
from kstore_core.discovery.registry import make_engine
from kstore_core.engine import Database, Rows
from kstore_core.spec import StoreSpec
from kstore_core.testing.kinds import KINDS, Kind

RETENTION_MS, INTERVAL_MS = 20_000, 5_000
HEADERS = [("trace-id", b"\x00\xff"), ("trace-id", None), ("", b"")]
KEYS = [b"\x00", b"\x01", b"k", b"k\x00", b"key-1", b"\xff\xff"]


def spec_of(kind: Kind, name: str | None = None) -> StoreSpec:
    name = name or str(kind)
    return kind.spec(name) if kind.shape == "key_value" else kind.spec(name, 20_000, 5_000)


def fill(store: Any, kind: Kind, seed: int, count: int = 60) -> None:
    """Random puts and deletes, many out of order and some too late."""
    chosen = random.Random(f"{seed}{kind}")
    for number in range(count):
        key, time = chosen.choice(KEYS), max(0, number * 500 - chosen.randrange(12_000))
        value = b"v%d" % number
        headers = HEADERS if kind.format.headers else ()
        gone = chosen.random() < 0.2
        if kind.shape == "versioned":
            if gone:
                store.delete(key, timestamp=time)
            else:
                store.put(key, value, timestamp=time, **({"headers": headers} if headers else {}))
        elif kind.shape == "key_value":
            if gone:
                store.delete(key)
            else:
                store.put(key, kind.value(kind.record(value, time, headers)))
        elif kind.shape == "window":
            record = None if gone else kind.value(kind.record(value, time, headers))
            store.put(key, record, window_start=time // 10 * 10)
        else:
            session = Windowed(key, time, time + chosen.randrange(300))
            record = None if gone else kind.value(kind.record(value, time, headers))
            store.put(session, record)


def write(root: Path, engine: str, *, seed: int = 0, **arguments: Any) -> None:
    """A store of each kind, in two commits."""
    with open_state(root, engine=engine, **arguments) as state:
        opened = [(state.open(spec_of(kind)), kind) for kind in KINDS]
        for part in range(2):
            for store, kind in opened:
                fill(store, kind, seed + part)
            state.commit({("input", 0): part})


def plant(root: Path, engine: str, spec: StoreSpec, namespace: str, rows: dict[bytes, Any]) -> None:
    """Write rows past everything that would refuse them; None deletes one."""
    made = make_engine(engine)
    with closing(opened(made, root, spec.name)) as database:
        database.namespace(namespace)
        keys = sorted(rows)
        database.write({namespace: Rows(keys, [rows[key] for key in keys])})


def opened(engine: Any, root: Path, store: str) -> Database:
    """The database of a store; of segments the first one."""
    if store in engine.parents(root):
        return engine.open_child(root, store, engine.children(root, store)[0])
    return engine.open(root, store)


def rows_in(root: Path, engine: str, store: str, namespace: str) -> dict[bytes, bytes]:
    with closing(opened(make_engine(engine), root, store)) as database:
        scan = database.namespace(namespace).scan()
        return {k: v for keys, values in scan for k, v in zip(keys, values, strict=True)}


def hashed(root: Path) -> dict[str, str]:
    """Each file and what is in it, but for LMDB's table of readers."""
    return {
        str(path.relative_to(root)): hashlib.sha1(path.read_bytes()).hexdigest()
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.name != "lock.mdb"
    }
