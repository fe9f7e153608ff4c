"""The data of the Spark jobs as Parquet: a log of versions, and rows to join with them.

A key has ten versions, one per hour, with values of 100 bytes and three headers. No version is
deleted, so joins without support for tombstones give the same result. The rows have a random order.
"""

from __future__ import annotations

import shutil
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kstore_core import serdes, stores

HOUR_MS = 3_600_000
VERSIONS = 10
SHARDS = 4
SPEC = stores.versioned_key_value_with_headers("rates", 10**12, key=serdes.UTF8, value=serdes.UTF8)
_HEADERS = [("trace-id", b"0123456789abcdef"), ("n", None), ("s", b"ecb")]


def key_names(numbers: np.ndarray) -> pa.Array:
    """Return keys of 13 characters."""
    return _padded("key-", numbers, 9, "0", left=True)


def log_table(keys: int) -> pa.Table:
    """Return the log in the order of time, with every key once per hour."""
    numbers = np.arange(keys * VERSIONS)
    return pa.table(
        {
            "key": key_names(numbers % keys),
            "value": _padded("value-", numbers, 94, "x", left=False),
            "timestamp": pa.array(numbers * HOUR_MS // keys),
            "headers": _same_headers(len(numbers)),
        }
    )


def rows_table(count: int, keys: int, *, seed: int = 7) -> pa.Table:
    """Return rows with keys and times of the log. Some times are before the key's first version."""
    random = np.random.default_rng(seed)
    return pa.table(
        {
            "number": np.arange(count),
            "who": key_names(random.integers(keys, size=count)),
            "at": random.integers(VERSIONS * HOUR_MS, size=count),
        }
    )


@dataclass
class Data:
    """The log and the rows in a temporary directory, and the store that is made from the log."""

    spark: Any
    scratch: Path
    keys: int
    count: int

    @classmethod
    def make(cls, spark: Any, keys: int, count: int) -> Data:
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas")
        made = cls(spark, Path(tempfile.mkdtemp(prefix="kstore-spark-")), keys, count)
        _write(log_table(keys), made.scratch / "log")
        _write(rows_table(count, keys), made.scratch / "rows")
        return made

    @property
    def root(self) -> Path:
        """The root of the store."""
        return self.scratch / "root"

    @cached_property
    def log(self) -> Any:
        return self.spark.read.parquet(str(self.scratch / "log"))

    @cached_property
    def rows(self) -> Any:
        return self.spark.read.parquet(str(self.scratch / "rows"))

    def write_store(self) -> None:
        """Write a new version of the store from the whole log."""
        from kstore_core.spark import write_store

        write_store(self.log, self.root, SPEC, partitions=SHARDS, mode="overwrite")

    def copy_of_root(self, name: str) -> Path:
        """Copy the store to a path that no worker has read yet."""
        return Path(shutil.copytree(self.root, self.scratch / name))

    def batches(self, name: str, sizes: list[int]) -> Any:
        """Return rows as a stream that reads one file per batch."""
        place = self.scratch / name
        place.mkdir()
        for number, size in enumerate(sizes):
            table = rows_table(size, self.keys, seed=100 + number)
            pq.write_table(table, place / f"{number:04d}.parquet")
            time.sleep(0.002)  # the source sorts files by their times
        reader = self.spark.readStream.schema(self.rows.schema).option("maxFilesPerTrigger", 1)
        return reader.parquet(str(place))

    def close(self) -> None:
        shutil.rmtree(self.scratch, ignore_errors=True)


def run(df: Any) -> None:
    """Compute all rows and columns, and discard them."""
    df.write.format("noop").mode("overwrite").save()


def checksum(df: Any) -> tuple[int, int]:
    """Return the number of rows, and a checksum that does not depend on their order."""
    from pyspark.sql import functions as F  # noqa: N812

    found = df.agg(F.count("*"), F.bit_xor(F.xxhash64(*df.columns))).first()
    return found[0], found[1]


def seconds(job: Callable[[], object]) -> float:
    """Return the seconds that ``job`` takes."""
    started = time.perf_counter()
    job()
    return time.perf_counter() - started


def _padded(prefix: str, numbers: np.ndarray, width: int, fill: str, *, left: bool) -> pa.Array:
    digits = pa.array(numbers).cast(pa.string())
    pad = pc.utf8_lpad if left else pc.utf8_rpad
    return pc.binary_join_element_wise(prefix, pad(digits, width, fill), "")


def _same_headers(count: int) -> pa.Array:
    keys, values = zip(*_HEADERS, strict=True)
    pairs = pa.StructArray.from_arrays(
        [
            pa.array(list(keys)).take(np.tile(np.arange(len(keys)), count)),
            pa.array(list(values), pa.binary()).take(np.tile(np.arange(len(keys)), count)),
        ],
        names=["key", "value"],
    )
    return pa.ListArray.from_arrays(np.arange(count + 1, dtype=np.int32) * len(keys), pairs)


def _write(table: pa.Table, directory: Path) -> None:
    """Write a table to one file per shard, so that Spark reads it in as many tasks."""
    directory.mkdir()
    size = -(-len(table) // SHARDS)
    for number in range(SHARDS):
        pq.write_table(table.slice(number * size, size), directory / f"{number}.parquet")
