"""Makes the state directories of this folder: ``python -m tests.data.make ENGINE NUMBER``.

Each is a state directory as this version of kstore leaves it, with a store of every format and one
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
from typing import Any

from kstore_core import formats, open_state, stores
from kstore_core.formats import ValueFormat
from kstore_core.registry import make_engine
from kstore_core.spec import StoreSpec

HERE = Path(__file__).parent
RETENTION_MS, INTERVAL_MS = 10_000, 1_000
KEYS = [b"", b"\x00", b"k", b"k\x00", b"key-1", b"key-2", b"key-3", b"\xff\xff"]
HEADERS = [("trace-id", b"\x00\xff"), ("trace-id", None), ("", b"")]


def spec_of(name: str, value_format: ValueFormat) -> StoreSpec:
    """The spec of a store of bytes."""
    if value_format is formats.VERSIONED:
        return stores.versioned_key_value(name, RETENTION_MS, INTERVAL_MS)
    if value_format is formats.VERSIONED_HEADERS:
        return stores.versioned_key_value_with_headers(name, RETENTION_MS, INTERVAL_MS)
    return StoreSpec(name, "key_value", value_format)


def plans() -> dict[str, tuple[ValueFormat, ValueFormat]]:
    """The stores by name: the format that each begins with, and the one that it ends with."""
    kept = [*formats.of_shape("key_value"), *formats.of_shape("versioned")]
    whole = {f.name: (f, f) for f in kept}
    half = {
        f"{older}.to.{newer.name}": (formats.by_name(older), newer)
        for newer in kept
        for older in newer.upgrades
    }
    return whole | half


def write(root: Path, engine: str) -> None:
    """The stores, each left with old rows, moved ones, new ones and deleted ones."""
    with open_state(root, engine=engine) as state:
        for name, (first, _) in plans().items():
            store = state.open(spec_of(name, first))
            for number, key in enumerate(KEYS):
                put(store, key, b"v%d" % number if number else b"", 1000 * number)
                if first.versioned and number % 2:
                    put(store, key, b"w%d" % number, 1000 * number + 1500)
            with state.record(topic="input", partition=2, offset=7):
                store.delete(KEYS[0], **({"timestamp": 9000} if first.versioned else {}))
        state.commit({("changelog", 0): 41})
    with open_state(root, engine=engine) as state:
        for name, (first, last) in plans().items():
            if first is last:
                continue
            store = state.open(spec_of(name, last))
            store.get(KEYS[2])
            put(store, KEYS[4], b"new", 9500)
            if not last.versioned:
                store.delete(KEYS[5])
        state.commit({("changelog", 0): 42})


def put(store: Any, key: bytes, value: bytes, timestamp: int) -> None:
    value_format = store.spec.format
    more: dict[str, Any] = {"timestamp": timestamp} if value_format.timestamped else {}
    if value_format.headers:
        more["headers"] = HEADERS
    store.put(key, value, **more)


def contents(store: Any) -> list[Any]:
    """What a store holds, as JSON: a key's record, or its history where it is versioned."""
    if store.spec.format.versioned:
        return [[key.hex(), [record_of(store, v) for v in store.history(key)]] for key in KEYS]
    return [[key.hex(), record_of(store, value)] for key, value in store.all()]


def record_of(store: Any, record: Any) -> dict[str, Any]:
    """A record as JSON, bytes in hex."""
    value_format = store.spec.format
    if not value_format.timestamped:
        return {"value": record.hex()}
    found = {"value": record.value.hex(), "timestamp": record.timestamp}
    if value_format.versioned:
        found["valid_to"] = record.valid_to
    if value_format.headers:
        found["headers"] = [[key, None if v is None else v.hex()] for key, v in record.headers]
    return found


def describe(root: Path, engine: str) -> Iterator[dict[str, Any]]:
    """A line about the directory, then one for each store."""
    made = make_engine(engine)
    yield {"kstore": version("kstore"), "engine": engine}
    with open_state(root, engine=made, read_only=True) as state:
        for name, (first, last) in plans().items():
            with closing(made.open(root, name, read_only=True)) as database:
                rows = {
                    space: sum(len(keys) for keys, _ in database.namespace(space).scan())
                    for space in sorted(database.namespaces())
                }
            store = state.open(spec_of(name, last))
            yield {
                "store": name,
                "formats": [first.name, last.name],
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
