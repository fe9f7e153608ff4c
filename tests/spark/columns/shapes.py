"""Logs and the columns of their keys, for every shape."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa

from kstore_core import stores
from kstore_core.arrow import headers_type
from kstore_core.codec import partition, session_key, window_key
from kstore_core.spark.root.root import Root
from kstore_core.spark.write.job import WriteJob
from kstore_core.spec import StoreSpec
from tests.spark.support.logs import columns_of_shape

SHARDS = 3


SHAPES = {
    "window": lambda: stores.window("s", 10_000, 50, segment_interval_ms=300),
    "timestamped": lambda: stores.timestamped_window("s", 10_000, 50, segment_interval_ms=300),
    "headers": lambda: stores.timestamped_window_with_headers("s", 10_000, 50),
    "duplicates": lambda: stores.window("s", 10_000, 50, retain_duplicates=True),
    "session": lambda: stores.session("s", 10_000, segment_interval_ms=300),
    "session_headers": lambda: stores.session_with_headers("s", 10_000),
}


def log_of(spec: StoreSpec, seed: int, first: int = 0) -> list[dict[str, Any]]:
    """Records of a few windows or sessions, tombstones among them."""
    dice = random.Random(seed)
    log = []
    for number in range(first, first + 80):
        start = dice.randrange(20) * 50
        record = {
            "key": f"k{dice.randrange(5)}".encode(),
            "start": start,
            "end": start + dice.randrange(3) * 50,
            "sequence": number if spec.retain_duplicates else 0,
            "value": None if dice.random() < 0.2 else b"v%d" % number,
            "timestamp": start + dice.randrange(50),
            "headers": [{"key": "n", "value": b"%d" % number}],
            "offset": number,
        }
        log.append(record)
    return log


def columns_of(spec: StoreSpec, log: list[dict[str, Any]], *, typed: bool) -> pa.Table:
    def column(name: str, kind: Any) -> pa.Array:
        return pa.array([record[name] for record in log], kind)

    columns = {
        "value": column("value", pa.binary()),
        "offset": column("offset", pa.int64()),
        "partition": pa.array([partition(r["key"], SHARDS) for r in log], pa.int32()),
        "topic": pa.array(["t"] * len(log)),
    }
    if spec.format.timestamped:
        columns["timestamp"] = column("timestamp", pa.int64())
    if spec.format.headers:
        columns["headers"] = column("headers", headers_type())
    if not typed:
        make = (
            (lambda r: window_key(r["key"], r["start"], r["sequence"]))
            if spec.shape == "window"
            else (lambda r: session_key(r["key"], r["start"], r["end"]))
        )
        return pa.table({"key": pa.array(map(make, log), pa.binary()), **columns})
    columns["key"] = column("key", pa.binary())
    return pa.table(columns | columns_of_shape(spec, column))


def written(root: Root, spec: StoreSpec, table: pa.Table) -> None:
    job = WriteJob.plan(
        root, spec, root.newest(), engine="rocksdb", partitions=SHARDS, mode="append"
    )
    job.begin()
    job.publish(job.writer().write_each(1, table.to_batches(), by_key=False))
