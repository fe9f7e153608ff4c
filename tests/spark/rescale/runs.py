"""Rescales in this process, without Spark, and a plain model to compare them with."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from kstore_core import stores
from kstore_core.arrow import headers_type
from kstore_core.codec import partition
from kstore_core.spark.read.plan import View, plan_store
from kstore_core.spark.read.selection import Selection
from kstore_core.spark.rescale.building import BuildTask, Uploads
from kstore_core.spark.rescale.reading import ROWS, PublishedShards, RowsTask
from kstore_core.spark.rescale.versions import new_shards
from kstore_core.spark.root.manifest import Manifest
from kstore_core.spark.root.root import Root
from kstore_core.spark.write.job import WriteJob
from kstore_core.spec import StoredSpec, StoreSpec
from tests.spark.support.by_hand import rows_of
from tests.spark.support.logs import columns_of_shape

Log = list[dict[str, Any]]

FOR_EVER, SHORT = 10**9, 400
SHAPES = {
    "plain": lambda _: stores.key_value("s"),
    "timestamped": lambda _: stores.timestamped_key_value("s"),
    "headers": lambda _: stores.timestamped_key_value_with_headers("s"),
    "versioned": lambda kept: stores.versioned_key_value("s", kept, 100),
    "versioned_headers": lambda kept: stores.versioned_key_value_with_headers("s", kept, 100),
    "window": lambda kept: stores.window("s", kept, 50, segment_interval_ms=300),
    "window_headers": lambda kept: stores.timestamped_window_with_headers("s", kept, 50),
    "duplicates": lambda kept: stores.window("s", kept, 50, retain_duplicates=True),
    "ordered": lambda kept: stores.timestamped_window_with_headers(
        "s", kept, 50, segment_interval_ms=300, time_ordered=True
    ),
    "ordered_without_index": lambda kept: stores.timestamped_window(
        "s", kept, 50, time_ordered=True, indexed=False
    ),
    "session": lambda kept: stores.session("s", kept, segment_interval_ms=300),
    "session_headers": lambda kept: stores.session_with_headers("s", kept),
    "ordered_session": lambda kept: stores.session_with_headers(
        "s", kept, segment_interval_ms=300, time_ordered=True
    ),
}


def random_log(spec: StoreSpec, seed: int, count: int, sources: int) -> Log:
    """Records whose keys choose their source partitions, with tombstones and some disorder."""
    dice = random.Random(seed)
    offsets = [0] * sources
    log = []
    for number in range(count):
        key = dice.choice([b"", b"k%d" % dice.randrange(12), b"\xff\x00\x01" * dice.randrange(4)])
        key = key or b"k"
        source = partition(key, sources)
        start = max(0, number * 10 + dice.randint(-60, 60)) // 50 * 50
        log.append(
            {
                "key": key,
                "start": start,
                "end": start + dice.randrange(3) * 50,
                "sequence": number if spec.retain_duplicates else 0,
                "value": None if dice.random() < 0.2 else b"v%d" % number * dice.randrange(3),
                "timestamp": start + dice.randrange(50),
                "headers": [{"key": "n", "value": b"%d" % number}, {"key": "", "value": None}],
                "partition": source,
                "offset": offsets[source],
            }
        )
        offsets[source] += dice.randrange(1, 3)
    return log


def table_of(spec: StoreSpec, log: Log) -> pa.Table:
    """The log with the columns of `write_store`."""

    def column(name: str, kind: Any) -> pa.Array:
        return pa.array([record[name] for record in log], kind)

    columns = {
        "key": column("key", pa.binary()),
        "value": column("value", pa.binary()),
        "topic": pa.array(["t"] * len(log), pa.string()),
        "partition": column("partition", pa.int32()),
        "offset": column("offset", pa.int64()),
    }
    if spec.format.timestamped or spec.format.versioned:
        columns["timestamp"] = column("timestamp", pa.int64())
    if spec.format.headers:
        columns["headers"] = column("headers", headers_type())
    return pa.table(columns | columns_of_shape(spec, column))


def write(root: Root, spec: StoreSpec, log: Log, shards: int, engine: str) -> Manifest:
    """Append a log to the root."""
    newest = root.newest()
    job = WriteJob.plan(root, spec, newest, engine=engine, partitions=shards, mode="append")
    job.begin()
    batches = table_of(spec, log).to_batches()
    return job.publish(job.writer().write_each(1, batches, by_key=True))


def rescale(root: Root, spec: StoreSpec, shards: int) -> Manifest:
    """Rescale the newest version, as :func:`rescale_versions` does it with Spark."""
    newest = root.load()
    job = WriteJob(root, spec, newest.engine, shards, "rescale", newest.version + 1)
    job.begin()
    stored = StoredSpec.of(spec)
    old = PublishedShards(root, newest.shards, newest.engine)
    rows = RowsTask(old, stored, newest.partitions, shards)
    numbers = pa.RecordBatch.from_pydict({"id": list(range(newest.partitions))})
    moved = pa.Table.from_batches(list(rows.run(iter([numbers]))), ROWS)
    made = new_shards(newest.shards, shards, spec.shape)
    build = BuildTask(Uploads(root, job.job), stored, newest.engine, made)
    written = []
    for number in range(shards):
        of_shard = moved.filter(pa.compute.equal(moved["shard"], number))
        batches = of_shard.sort_by([("segment", "ascending"), ("key", "ascending")]).to_batches()
        written.append(build.build(number, 1, iter(batches)))
    return job.publish(written)


def read(root: Root, spec: StoreSpec, version: int | None = None) -> list[str]:
    """All rows of a version, without their shards; the versions of a versioned store."""
    selection = Selection(history=spec.format.versioned)
    plan = plan_store(root, root.load(version), spec, selection, View(timestamps="millis"))
    return sorted(repr({**row, "partition": None}) for row in rows_of(plan))


def model(spec: StoreSpec, log: Iterable[dict[str, Any]]) -> list[str]:
    """What a dictionary makes of the records, as :func:`read` gives it; no record is late."""
    rows: dict[Any, dict[str, Any]] = {}
    for record in sorted(log, key=lambda record: (record["partition"], record["offset"])):
        row = {"key": record["key"]}
        if spec.shape == "window":
            row |= {"window_start": record["start"], "window_end": record["start"] + 50}
        if spec.shape == "session":
            row |= {"session_start": record["start"], "session_end": record["end"]}
        if spec.retain_duplicates:
            row["sequence"] = record["sequence"]
        name = (*row.values(), record["timestamp"] if spec.format.versioned else None)
        row["value"] = record["value"]
        if spec.format.timestamped or spec.format.versioned:
            row["timestamp"] = record["timestamp"]
        if spec.format.versioned:
            row["valid_to"] = None
        if spec.format.headers:
            row["headers"] = record["headers"]
        rows[name] = row
    if spec.format.versioned:
        following: dict[bytes, int] = {}
        for name in sorted(rows, key=lambda name: name[-1], reverse=True):
            rows[name]["valid_to"] = following.get(name[0])
            following[name[0]] = name[-1]
    found = [row for row in rows.values() if row["value"] is not None]
    return sorted(repr({**row, "partition": None}) for row in found)


def cut(log: Log, dice: random.Random, shards: int) -> Log:
    """The records of each shard and source up to an offset of this shard and this source."""
    most = max(record["offset"] for record in log) + 1
    ends = {
        (shard, source): dice.randrange(-1, most) for shard in range(shards) for source in range(9)
    }
    return [
        record
        for record in log
        if record["offset"] <= ends[partition(record["key"], shards), record["partition"]]
    ]


def root_at(path: Path) -> Root:
    return Root.at(path)


def numbers(manifest: Manifest) -> Sequence[int]:
    """The numbers of records that each shard skipped."""
    return [shard.replayed for shard in manifest.shards]
