"""write_store: what fails on the way leaves what was there, and nothing else."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from kstore_core import Headers, serdes, stores
from kstore_core.errors import CommitConflictError, CorruptionError
from kstore_core.spark import read_store, write_store
from kstore_core.spark.root.root import Root
from tests.spark.support.faults import publish_together
from tests.spark.support.logs import SHARDS, SPEC, Record, log_frame, make_log, nothing_written

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_failing_task_leaves_nothing(spark: SparkSession, root: Path) -> None:
    """Spark gives up on a task; other tasks may have uploaded already."""
    df = spark.sql(
        "select "
        "cast(concat('k', id) as binary) key, "
        "if(id = 5, cast(raise_error('boom') as binary), null) value, id timestamp, "
        "array() :: array<struct<key:string,value:binary>> headers from range(10)"
    )
    with pytest.raises(Exception, match="boom"):
        write_store(df, root, SPEC, partitions=2)
    assert nothing_written(root)


class Deadly:
    """A serde that ends its process on one value."""

    name = "deadly"

    @property
    def arrow_type(self) -> pa.DataType:
        return pa.int64()

    def serialize(self, value: int, headers: Headers) -> bytes:
        if value == 7:
            os._exit(1)
        return b"%d" % value

    def deserialize(self, data: bytes, headers: Headers) -> int:
        return int(data)


def test_a_killed_worker_leaves_nothing(spark: SparkSession, root: Path) -> None:
    spec = stores.timestamped_key_value("s", key=serdes.INT64, value=Deadly())
    good = spark.sql("select id key, id * 10 value, id timestamp from range(20)")
    write_store(good, root, spec, partitions=4)
    before = sorted(root.rglob("*"))
    bad = spark.sql("select id key, id value, id timestamp from range(20)")
    with pytest.raises(Exception, match=r"crashed|exited unexpectedly"):
        write_store(bad, root, spec, partitions=4)
    assert sorted(root.rglob("*")) == before
    assert read_store(spark, root, spec=spec, timestamps="millis").count() == 20


@pytest.mark.spoils_root
def test_a_damaged_shard_is_not_gone_on_from(spark: SparkSession, root: Path) -> None:
    log = make_log(17, 100, SHARDS)
    manifest = write_store(log_frame(spark, log[:50]), root, SPEC, partitions=SHARDS)
    shard = manifest.shards[0]
    victim = next(f for f in shard.files if f.bytes > 20)
    path = root / str(shard.path) / victim.path
    path.write_bytes(b"\0" * victim.bytes)
    with pytest.raises(CorruptionError, match="differs from its manifest"):
        write_store(log_frame(spark, log), root, SPEC, partitions=SHARDS)
    assert Root.at(root).versions() == [1]
    assert [p.name for p in (root / "attempts").iterdir()] == [manifest.job]


def test_of_two_writers_at_once_one_publishes(
    spark: SparkSession, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both go on from version 1 and meet before the manifest is put in place."""
    log = make_log(18, 60, SHARDS)
    write_store(log_frame(spark, log[:20]), root, SPEC, partitions=SHARDS)
    publish_together(monkeypatch)
    results: list[Any] = []

    def write(records: list[Record]) -> None:
        try:
            results.append(write_store(log_frame(spark, records), root, SPEC, partitions=SHARDS))
        except CommitConflictError as error:
            results.append(error)

    threads = [threading.Thread(target=write, args=(part,)) for part in (log[20:40], log[:60])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (won,) = [r for r in results if not isinstance(r, Exception)]
    (lost,) = [r for r in results if isinstance(r, Exception)]
    assert "published by another writer" in str(lost)
    assert Root.at(root).versions() == [1, 2]
    assert Root.at(root).load() == won
    jobs = {path.name for path in (root / "attempts").iterdir()}
    assert jobs == {Root.at(root).load(1).job, won.job}
