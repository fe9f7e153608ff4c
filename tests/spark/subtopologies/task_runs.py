"""Tasks of sub-topologies for tests, run where they are, without Spark."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

from kstore_core import open_state, serdes, stores
from kstore_core.processing import Context, Record, Topology
from kstore_core.spark.live.epochs import Epoch
from kstore_core.spark.subtopologies.rows import SCHEMA
from kstore_core.spark.subtopologies.stages import Stage, bound
from kstore_core.spark.subtopologies.tasks import SubtopologyTask

TEXT = serdes.UTF8
TOTALS = stores.timestamped_key_value_with_headers("totals", key=TEXT, value=serdes.INT64)
SEEN = stores.window("seen", 10_000, 1000, key=TEXT, value=TEXT)

FIRST = [("in", 10, "a", "1"), ("in", 11, "b", "2"), ("in", 12, "a", "3")]

Row = tuple[str, int, str | None, str | None]
"""The topic, the timestamp, the key and the value of a record."""


def add_up(context: Context, record: Record[str, str]) -> None:
    """Forward the sum of all amounts of the key, and write to two stores."""
    totals = context.store("totals")
    known = totals.get(record.key)
    total = int(record.value) + (0 if known is None else known.value)
    totals.put(record.key, total)
    context.store("seen").put(record.key, record.value, window_start=record.timestamp)
    context.forward(record.replace(value=str(total)))


def adding() -> Topology:
    """A topology with the topics ``in`` and ``out``, and two stores."""
    return (
        Topology()
        .add_source("in", "in", key=TEXT, value=TEXT)
        .add_processor("add up", add_up, ["in"], stores=[TOTALS, SEEN])
        .add_sink("out", "out", ["add up"], key=TEXT, value=TEXT)
    )


def make_stage(root: Path, topology: Topology, **given: Any) -> Stage:
    """The stage of the first sub-topology, with the arguments of `run_on_spark`."""
    settings = {
        "engine": "lmdb",
        "partitions": 2,
        "by_default": 2,
        "storage_options": None,
        "compact_every": 3,
        "durability": "process",
        "lock_timeout_s": 0,
        "uncommitted_max_bytes": 1 << 20,
        "partition_time": False,
    }
    return bound(topology.subtopologies[0], root, **{**settings, **given})  # type: ignore[arg-type]


def make_task(root: Path, topology: Topology | None = None, **given: Any) -> SubtopologyTask:
    """The task of the stage."""
    return make_stage(root, topology or adding(), **given).task


def rows(records: Iterable[Row], first: int = 0) -> pa.Table:
    """Rows of partition 0, whose offsets begin with ``first``."""
    listed = [
        {
            "topic": topic,
            "partition": 0,
            "offset": first + number,
            "timestamp": time,
            "key": None if key is None else key.encode(),
            "value": None if value is None else value.encode(),
            "headers": [{"key": "n", "value": str(first + number).encode()}],
        }
        for number, (topic, time, key, value) in enumerate(records)
    ]
    return pa.Table.from_pylist(listed, schema=SCHEMA)


def epoch(number: int, query: str = "9c3f") -> Epoch:
    """An epoch of the tests' query."""
    return Epoch(query, number)


def texts(output: pa.RecordBatch) -> list[tuple[Any, ...]]:
    """The topic, key, value and time of what a task sent."""
    return [
        (row["topic"], row["key"].decode(), row["value"].decode(), row["timestamp"])
        for row in output.to_pylist()
    ]


def contents(task: SubtopologyTask, shard: int = 0) -> dict[str, list[Any]]:
    """All rows of the stores of a shard."""
    found: dict[str, list[Any]] = {}
    with (
        task.state.checkout(shard, task.engine, 0) as live,
        open_state(live.path, engine=live.engine, transactional=True) as state,
    ):
        for spec in task.part.specs:
            store = state.open(spec)
            found[spec.name] = [(key, value) for key, value in store.all()]
    return found


def moved(task: SubtopologyTask, storage: Any) -> SubtopologyTask:
    """The same task, which reaches its state in another way."""
    layout = dataclasses.replace(task.state.layout, storage=storage)
    return dataclasses.replace(task, state=dataclasses.replace(task.state, layout=layout))
