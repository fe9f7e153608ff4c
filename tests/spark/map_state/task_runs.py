"""Tasks of `map_state` for tests, run where they are, without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from kstore_core import serdes, stores
from kstore_core.spark.live.epochs import Epoch
from kstore_core.spark.live.layout import LiveLayout
from kstore_core.spark.map_state.sharding import Sharding
from kstore_core.spark.map_state.tasks import KeyedFunction, ShardTask
from kstore_core.spark.remote.layout import COMPACT_EVERY, RemoteLayout
from kstore_core.spark.root.storage.base import Storage
from kstore_core.spec import StoreSpec

TOTALS = stores.key_value("totals", key=serdes.UTF8, value=serdes.INT64)
SCHEMA = pa.schema([("key", pa.string()), ("total", pa.int64())])
QUERY = "9c3f"
ROWS = [("a", 1), ("b", 2), ("a", 3)]


def running_total(key: str, rows: Any, store: Any) -> Any:
    """A row for each row: the sum of all amounts so far."""
    total = store.get(key) or 0
    for row in rows:
        total += row.amount
        yield key, total
    store.put(key, total)


def make_task(root: Path | Storage, function: Any = running_total, **given: Any) -> ShardTask:
    """A task of a state that is bound to its directory, on this disk or on an object store."""
    spec: StoreSpec = given.pop("spec", TOTALS)
    schema: pa.Schema = given.pop("schema", SCHEMA)
    engine: str = given.pop("engine", "lmdb")
    names: Sequence[str] = given.pop("names", ("key", "amount"))
    sharding = Sharding(spec.name, spec.shape, spec.key.name, engine, 4, "key")
    every: int = given.pop("compact_every", COMPACT_EVERY)
    layout: LiveLayout | RemoteLayout
    if isinstance(root, Path):
        layout = LiveLayout.of(root, spec.name)
    else:
        layout = RemoteLayout.of(root, spec.name, every)
    settings = {"batch_run": None, "lock_timeout_s": 0, "durability": "process"}
    return ShardTask(
        state=sharding.bind(layout),
        spec=spec,
        engine=engine,
        partitions=4,
        names=tuple(names),
        schema=schema,
        columns=tuple(f"column{place}" for place in range(len(schema))),
        work=KeyedFunction(function, spec, "key", (), "timestamp", schema),
        **{**settings, "uncommitted_max_bytes": 1 << 20, **given},
    )


def amounts(rows: Sequence[tuple[str | None, int]]) -> pa.Table:
    """Rows of a key and an amount."""
    return pa.table(
        {
            "key": pa.array([key for key, _ in rows], pa.string()),
            "amount": pa.array([amount for _, amount in rows], pa.int64()),
        }
    )


def given_by(output: pa.RecordBatch) -> list[tuple[Any, ...]]:
    """The rows of what a task gave."""
    return [tuple(row.values()) for row in output.to_pylist()]


def epoch(number: int, query: str = QUERY) -> Epoch:
    """An epoch of the tests' query."""
    return Epoch(query, number)


class Model:
    """The totals that all epochs together give."""

    def __init__(self) -> None:
        self.totals: dict[str, int] = {}

    def put(self, rows: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
        """What `running_total` gives of the rows of an epoch."""
        found = []
        for key in dict.fromkeys(key for key, _ in rows):
            for amount in (amount for other, amount in rows if other == key):
                self.totals[key] = self.totals.get(key, 0) + amount
                found.append((key, self.totals[key]))
        return found
