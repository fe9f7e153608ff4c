"""Rows of window stores, and where they lie."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from kstore_core import StateDirectory, stores
from kstore_core.codec import window_key
from kstore_core.engine import Engine, Rows
from kstore_core.offsets.entries import COMMIT, SEGMENTS, StoreRecord, read_record
from kstore_core.spec import StoreSpec
from kstore_core.tables import Bounds, Table

INTERVAL = 10
FOREVER = 2**62


def window_spec(make: Any = stores.window, name: str = "w", **more: Any) -> StoreSpec:
    """A store whose segments are 10 ms wide, and which keeps them for ever."""
    given = {"retention_ms": FOREVER, "window_size_ms": 5, "segment_interval_ms": INTERVAL, **more}
    spec: StoreSpec = make(name, **given)
    return spec


def row(time: int, key: bytes = b"k") -> bytes:
    """The stored key of a window."""
    return window_key(key, time, 0)


@contextmanager
def six_segments(open_state: Callable[[], StateDirectory]) -> Iterator[StateDirectory]:
    """A state directory that was opened anew after its store got a row in each of six segments."""
    with open_state() as state:
        table = state.open(window_spec()).table
        for number in range(6):
            table.put_one(row(number * INTERVAL), b"%d" % number)
    with open_state() as state:
        yield state


def rows_of(table: Table, **bounds: Any) -> list[tuple[bytes, bytes]]:
    """All rows of a scan."""
    chunks = table.scan(Bounds(**bounds))
    return [pair for keys, values in chunks for pair in zip(keys, values, strict=True)]


def records(engine: Engine, root: Path, store: str = "w") -> dict[int, StoreRecord]:
    """What the database of each segment says, by the segment's start."""
    found = {}
    for child in engine.children(root, store):
        database = engine.open_child(root, store, child, read_only=True)
        try:
            if "offsets" in database.namespaces():
                found[int(child.rpartition(".")[2])] = read_record(database.namespace("offsets"))
        finally:
            database.close()
    return found


def forget_commits(engine: Engine, root: Path, store: str = "w") -> None:
    """Take the entries away that tell how far each segment is: Kafka Streams writes none."""
    for child in engine.children(root, store):
        with closing(engine.open_child(root, store, child)) as database:
            database.write({"offsets": Rows([COMMIT, SEGMENTS], [None, None])})


def kafkas_offset(engine: Engine, root: Path, partition: tuple[str, int]) -> int | None:
    """The committed offset as Kafka Streams finds it: that of the newest segment that has one."""
    for _, record in sorted(records(engine, root).items(), reverse=True):
        if partition in record.offsets:
            return record.offsets[partition]
    return None
