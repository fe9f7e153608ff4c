"""Seeded changelogs, and what a partitioned versioned store makes of them, in plain Python."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kstore_core import stores
from kstore_core.arrow import headers_type
from kstore_core.codec import partition

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

    from kstore_core.spec import StoreSpec

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True)
class Record:
    """A record of a log."""

    key: bytes
    value: bytes | None
    timestamp: int
    headers: Headers = ()
    topic: str = "log"
    partition: int = 0
    offset: int = 0


@dataclass(frozen=True)
class Version:
    """A version of a key, as a store answers."""

    key: bytes
    value: bytes
    timestamp: int
    valid_to: int | None
    headers: Headers
    shard: int


def columns_of_shape(
    spec: StoreSpec, column: Callable[[str, pa.DataType], pa.Array]
) -> dict[str, pa.Array]:
    """The columns of `write_store` with the windows or sessions of a log."""
    columns = {}
    if spec.shape in ("window", "session"):
        columns[f"{spec.shape}_start"] = column("start", pa.int64())
    if spec.shape == "session":
        columns["session_end"] = column("end", pa.int64())
    if spec.retain_duplicates:
        columns["sequence"] = column("sequence", pa.int32())
    return columns


def make_log(
    seed: int,
    count: int,
    partitions: int,
    *,
    keys: int = 20,
    span: int = 1000,
    disorder: int = 50,
    first_offset: int = 0,
    start: int = 1_000,
) -> list[Record]:
    """Records with tombstones, equal times, some disorder, in the partitions of Kafka's choice."""
    dice = random.Random(seed)
    offsets = [first_offset] * partitions
    records = []
    for number in range(count):
        key = f"k{dice.randrange(keys)}".encode()
        where = partition(key, partitions)
        time = start + number * span // count + dice.randint(-disorder, disorder)
        value = None if dice.random() < 0.15 else b"v%d" % number
        headers: list[tuple[str, bytes | None]] = [("n", str(number).encode())]
        headers += [("none", None), ("n", b"")][: dice.randrange(3)]
        records.append(
            Record(key, value, max(time, 0), tuple(headers), "log", where, offsets[where])
        )
        offsets[where] += 1
    return records


RETENTION, INTERVAL, SHARDS = 300, 40, 3
SPEC = stores.versioned_key_value_with_headers("rates", RETENTION, INTERVAL)
COLUMNS = ("key", "value", "timestamp", "headers", "topic", "partition", "offset")


def log_table(records: Sequence[Record]) -> pa.Table:
    """The records with the columns of Spark's Kafka source."""
    return pa.table(
        {
            "key": pa.array([r.key for r in records], pa.binary()),
            "value": pa.array([r.value for r in records], pa.binary()),
            "timestamp": pa.array(
                [r.timestamp * 1000 for r in records], pa.timestamp("us", tz="UTC")
            ),
            "headers": pa.array(
                [[{"key": k, "value": v} for k, v in r.headers] for r in records], headers_type()
            ),
            "topic": pa.array([r.topic for r in records], pa.string()),
            "partition": pa.array([r.partition for r in records], pa.int32()),
            "offset": pa.array([r.offset for r in records], pa.int64()),
        }
    )


def log_frame(
    spark: SparkSession, records: Sequence[Record], columns: Iterable[str] = COLUMNS
) -> DataFrame:
    """A DataFrame of some columns of the log."""
    return spark.createDataFrame(log_table(records).select(list(columns)))


@dataclass
class Model:
    """A partitioned versioned store: a dictionary of versions a key, a stream time a shard."""

    partitions: int
    retention: int
    versions: dict[bytes, dict[int, Record]] = field(default_factory=dict)
    stream_times: dict[int, int] = field(default_factory=dict)
    late: int = 0
    _histories: dict[bytes, list[Version]] = field(default_factory=dict)

    def put(self, records: Iterable[Record]) -> Model:
        """Put records in arrival order."""
        self._histories.clear()
        for record in records:
            shard = partition(record.key, self.partitions)
            stream_time = self.stream_times.get(shard, -1)
            if record.timestamp < stream_time - self.retention:
                self.late += 1
                continue
            self.stream_times[shard] = max(stream_time, record.timestamp)
            self.versions.setdefault(record.key, {})[record.timestamp] = record
        return self

    def history(self) -> list[Version]:
        """Every version, tombstones left out."""
        return [version for key in self.versions for version in self.history_of(key)]

    def history_of(self, key: bytes) -> list[Version]:
        """The versions of one key, oldest first."""
        if key not in self._histories:
            by_time = self.versions.get(key, {})
            shard = partition(key, self.partitions)
            times = sorted(by_time)
            self._histories[key] = [
                Version(key, record.value, time, end, record.headers, shard)
                for time, end in zip(times, [*times[1:], None], strict=False)
                if (record := by_time[time]).value is not None
            ]
        return self._histories[key]

    def horizon(self, shard: int) -> int:
        """The oldest time that a shard still answers for."""
        return self.stream_times.get(shard, -1) - self.retention

    def as_of(self, key: bytes | None, time: int | None) -> Version | None:
        """The version of ``key`` valid at ``time``, as ``store.get(key, as_of=time)`` gives it."""
        if key is None or time is None:
            return None
        for version in self.history_of(key):
            if version.timestamp <= time and (version.valid_to is None or time < version.valid_to):
                if version.valid_to is not None and time < self.horizon(version.shard):
                    return None
                return version
        return None


Published = tuple[Path, Model]
"""The root of a store with `SPEC`, and its model."""


def model_of(records: Iterable[Record]) -> Model:
    """Return the model of a store with `SPEC` in which the records were put."""
    return Model(SHARDS, RETENTION).put(records)


def publish(spark: SparkSession, folder: Path, seed: int) -> Published:
    """Write a log of 900 records as a store below a folder, and return its root and its model."""
    from kstore_core.spark import write_store

    root, log = folder / "root", make_log(seed, 900, SHARDS)
    write_store(log_frame(spark, log), root, SPEC, partitions=SHARDS)
    return root, model_of(log)


def in_order(versions: Iterable[Version]) -> list[Version]:
    return sorted(versions, key=lambda version: (version.key, version.timestamp))


def read_rows(df: DataFrame) -> list[Version]:
    """What a DataFrame of ``read_store(…, timestamps="millis")`` holds, sorted."""
    return in_order(
        Version(
            bytes(row["key"]),
            bytes(row["value"]),
            row["timestamp"],
            row.get("valid_to"),
            plain_headers(row["headers"]),
            row["partition"],
        )
        for row in df.toArrow().to_pylist()
    )


def plain_headers(headers: list[dict[str, Any]] | None) -> Headers:
    return tuple((header["key"], header["value"]) for header in headers or ())


def history(spark: SparkSession, root: Path, **options: Any) -> list[Version]:
    """Every version that the store at ``root`` holds."""
    from kstore_core.spark import read_store

    return read_rows(read_store(spark, root, history=True, timestamps="millis", **options))


def visible(model: Model) -> list[Version]:
    """What the shards still hold: what ended before the horizon goes a segment at a time."""
    return in_order(
        version
        for version in model.history()
        if version.valid_to is None
        or version.valid_to // INTERVAL >= model.horizon(version.shard) // INTERVAL
    )


def nothing_written(root: Path) -> bool:
    return not root.exists() or not list(root.rglob("*"))
