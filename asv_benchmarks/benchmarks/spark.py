"""Spark: whole jobs at a small size, the join beside Spark's own, and the inner loops alone."""

from __future__ import annotations

import shutil
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from kstore_core import open_state, serdes, stores
from kstore_core.arrow import headers_type
from kstore_core.restore import restore
from kstore_core.spark import local_session, read_store, temporal_join, write_store
from kstore_core.spark.partitioning import shards_of
from kstore_core.spark.snapshots import FOREVER, Snapshot

KEYS, VERSIONS, ROWS = 10_000, 10, 100_000
SHARDS = 4
HOUR = 3_600_000
SPEC = stores.versioned_key_value_with_headers("rates", 10**12, key=serdes.UTF8, value=serdes.UTF8)


def log_columns(count: int) -> dict[str, pa.Array]:
    """A changelog in order of time, ten versions a key, three headers each."""
    numbers = np.arange(count)
    headers = [{"key": "trace-id", "value": b"0123456789abcdef"}, {"key": "n", "value": None}]
    return {
        "key": pa.array([f"key-{n % KEYS:09d}" for n in range(count)]),
        "value": pa.array([f"value-{n}".ljust(100, "x") for n in range(count)]),
        "timestamp": pa.array(numbers * HOUR // KEYS),
        "headers": pa.array([[*headers, {"key": "s", "value": b"ecb"}]] * count, headers_type()),
    }


def rows_table(count: int) -> pa.Table:
    """Rows in no order, over the whole time of the log."""
    random = np.random.default_rng(7)
    return pa.table(
        {
            "number": np.arange(count),
            "who": [f"key-{n:09d}" for n in random.integers(KEYS, size=count)],
            "at": random.integers(VERSIONS * HOUR, size=count),
        }
    )


class Jobs:
    """100,000 records of 10,000 keys written to 4 shards, read, and joined with 100,000 rows."""

    timeout = 300
    unit = "ratio"
    number = 1
    warmup_time = 0

    def setup(self) -> None:
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas")
        self.spark = local_session("asv", shuffle_partitions=SHARDS)
        self.scratch = Path(tempfile.mkdtemp(prefix="kstore-asv-"))
        parquet = str(self.scratch / "log")
        log = pa.table(log_columns(KEYS * VERSIONS))
        self.spark.createDataFrame(log).write.parquet(parquet)
        self.spark.createDataFrame(rows_table(ROWS)).write.parquet(str(self.scratch / "rows"))
        self.log = self.spark.read.parquet(parquet)
        self.rows = self.spark.read.parquet(str(self.scratch / "rows"))
        self.root = self.scratch / "root"
        self.time_write_store()

    def teardown(self) -> None:
        shutil.rmtree(self.scratch)

    def time_write_store(self) -> None:
        write_store(self.log, self.root, SPEC, partitions=SHARDS, mode="overwrite")

    def time_read_history(self) -> None:
        run(read_store(self.spark, self.root, history=True))

    def track_temporal_join_beside_asof_join(self) -> float:
        """Time over that of Spark's native ASOF JOIN, which knows no valid-to."""
        self.spark.conf.set("spark.sql.join.asofJoin.enabled", "true")
        self.log.createOrReplaceTempView("log")
        self.rows.createOrReplaceTempView("rows")
        theirs = self.spark.sql(
            "select r.*, l.value, l.timestamp, l.headers from rows r left asof join log l "
            "match_condition (r.at >= l.timestamp) on r.who = l.key"
        )
        ours = temporal_join(self.rows, self.root, key="who", timestamp="at")
        return seconds(lambda: run(ours)) / seconds(lambda: run(theirs))


class Parts:
    """What tasks do: a shard restored, keys placed, 10,000 rows looked up in 100,000 versions."""

    def setup(self) -> None:
        columns = log_columns(KEYS * VERSIONS)
        self.keys = columns["key"].cast(pa.binary())
        self.values = columns["value"].cast(pa.binary())
        self.times, self.headers = columns["timestamp"], columns["headers"]
        begins = self.times.to_numpy()
        latest = np.arange(len(begins)) >= len(begins) - KEYS
        ends = np.where(latest, FOREVER, begins + HOUR)
        horizons = np.full(len(begins), -1)
        self.snapshot = Snapshot.of(self.keys, begins, ends, self.values, None, horizons)
        rows = rows_table(10_000)
        self.row_keys = rows["who"].combine_chunks().cast(pa.binary())
        self.row_times = rows["at"].to_numpy()

    def time_place_keys(self) -> None:
        shards_of(self.keys, SHARDS)

    def time_find(self) -> None:
        self.snapshot.find(self.row_keys, self.row_times)

    def time_restore_rocksdb(self) -> None:
        with (
            tempfile.TemporaryDirectory() as scratch,
            open_state(Path(scratch, "0_0"), engine="rocksdb") as state,
        ):
            restore(state.open(SPEC), self.keys, self.values, self.times, self.headers)


def run(df: Any) -> None:
    """Compute every row and column, and throw them away."""
    df.write.format("noop").mode("overwrite").save()


def seconds(job: Callable[[], None], rounds: int = 3) -> float:
    """The best of some runs."""
    best = float("inf")
    for _ in range(rounds):
        started = time.perf_counter()
        job()
        best = min(best, time.perf_counter() - started)
    return best
