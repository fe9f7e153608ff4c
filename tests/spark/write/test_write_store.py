"""write_store: what is published is what putting the log one by one gives, or nothing is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from kstore_core import Headers, open_state, serdes, stores
from kstore_core.codec import partition
from kstore_core.errors import SpecError, StateError
from kstore_core.spark import read_store, temporal_join, write_store
from kstore_core.spark.root.root import Root
from tests.spark.support import logs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Hexadecimal:
    """A serde that is not built in."""

    name = "hexadecimal"
    arrow_type = pa.string()

    def serialize(self, value: str, headers: Headers) -> bytes:
        return bytes.fromhex(value)

    def deserialize(self, data: bytes, headers: Headers) -> str:
        return data.hex()


@pytest.mark.parametrize(
    ("columns", "partition_by"),
    [
        (logs.COLUMNS, None),
        (logs.COLUMNS, "partition"),
        (logs.COLUMNS, "key"),
        (("key", "value", "timestamp", "headers"), None),
        (("value", "headers", "timestamp", "offset", "key"), "key"),
        (("key", "value", "timestamp", "headers", "partition"), None),
    ],
)
def test_a_version_is_what_its_log_makes(
    spark: SparkSession, root: Path, columns: tuple[str, ...], partition_by: Any
) -> None:
    log = logs.make_log(1, 600, logs.SHARDS)
    df = logs.log_frame(spark, log, columns)
    if "offset" in columns and "partition" in columns:
        df = df.repartition(5)  # their order is in their offsets
    else:
        df = df.coalesce(1)
    df = df.selectExpr("*", "0 timestampType")  # Kafka's source has it too
    manifest = write_store(df, root, logs.SPEC, partitions=logs.SHARDS, partition_by=partition_by)
    model = logs.model_of(log)
    assert logs.history(spark, root) == logs.visible(model)
    assert manifest == Root.at(root).load()
    assert (manifest.version, manifest.mode, manifest.partitions) == (1, "append", logs.SHARDS)
    assert (manifest.records, manifest.late) == (600, model.late)
    assert [shard.stream_time for shard in manifest.shards] == [
        model.stream_times[number] for number in range(logs.SHARDS)
    ]


def test_a_shard_is_a_state_directory_of_kafkas_layout(spark: SparkSession, root: Path) -> None:
    log = logs.make_log(2, 200, logs.SHARDS)
    manifest = write_store(logs.log_frame(spark, log), root, logs.SPEC, partitions=logs.SHARDS)
    for shard in manifest.shards:
        mine = [record for record in log if record.partition == shard.shard]
        assert shard.path is not None
        assert shard.path.endswith(f"/0_{shard.shard}")
        assert (root / shard.path / "rocksdb" / "rates" / "CURRENT").is_file()
        assert [(o.topic, o.partition, o.offset) for o in shard.offsets] == [
            ("log", shard.shard, mine[-1].offset)
        ]
        assert shard.records == len(mine)
        with open_state(root / shard.path, read_only=True) as state:
            assert state.stores() == ["rates"]
            assert state.offsets() == {("log", shard.shard): mine[-1].offset}
            assert state.open(logs.SPEC).stream_time == shard.stream_time
    assert sum(shard.rows for shard in manifest.shards) > 0


def test_the_manifest_tells_every_file(spark: SparkSession, root: Path) -> None:
    manifest = write_store(
        logs.log_frame(spark, logs.make_log(3, 50, logs.SHARDS)),
        root,
        logs.SPEC,
        partitions=logs.SHARDS,
    )
    document = json.loads((root / "_kstore" / "1.json").read_text())
    assert document["spec"] == logs.SPEC.describe()
    assert document["engine"] == "rocksdb"
    told = {root / str(shard.path) / file.path for shard in manifest.shards for file in shard.files}
    there = {path for path in (root / "attempts").rglob("*") if path.is_file()}
    assert told == there


def test_appending_goes_on_and_old_versions_stay(spark: SparkSession, root: Path) -> None:
    first = logs.make_log(4, 300, logs.SHARDS)
    second = logs.make_log(5, 200, logs.SHARDS, start=1_900, first_offset=1000)
    write_store(logs.log_frame(spark, first), root, logs.SPEC, partitions=logs.SHARDS)
    write_store(logs.log_frame(spark, second), root, logs.SPEC, partitions=logs.SHARDS)
    model = logs.model_of(first)
    assert logs.history(spark, root, version=1) == logs.visible(model)
    assert logs.history(spark, root) == logs.visible(model.put(second))


@pytest.mark.parametrize(
    ("key", "value", "key_type", "value_type"),
    [
        (serdes.INT64, serdes.FLOAT64, "int", "float"),
        (serdes.INT64, serdes.FLOAT64, "smallint", "int"),
        (serdes.INT32, serdes.INT64, "tinyint", "int"),
    ],
)
def test_narrower_numbers_are_written_and_joined_as_the_serdes_own(
    spark: SparkSession, root: Path, key: Any, value: Any, key_type: str, value_type: str
) -> None:
    spec = stores.versioned_key_value("n", 10**9, key=key, value=value)
    log = spark.sql(
        f"select cast(id - 50 as {key_type}) key, cast(id / 4 - 9 as {value_type}) value, "
        "id timestamp from range(100)"
    )
    write_store(log, root, spec, partitions=3)
    wide = {row.key: row.value for row in log.collect()}
    found = {row.key: row.value for row in read_store(spark, root).collect()}
    assert found == wide
    joined = temporal_join(log, root, key="key", timestamp="timestamp").collect()
    assert {row.key: row.table_value for row in joined} == wide
    assert len(joined) == 100


def test_wider_numbers_are_refused(spark: SparkSession, root: Path) -> None:
    spec = stores.key_value("n", key=serdes.INT32, value=serdes.FLOAT64)
    for columns in ("id key, 1.0D value", "cast(id as int) key, id value"):
        with pytest.raises(SpecError, match=r"is bigint, not binary or (int|double)"):
            write_store(spark.sql(f"select {columns} from range(3)"), root, spec, partitions=1)


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_a_root_knows_its_spec_its_engine_and_its_partitions(
    spark: SparkSession, root: Path, mode: Any
) -> None:
    first = logs.make_log(4, 100, logs.SHARDS)
    second = logs.make_log(5, 60, logs.SHARDS, start=1_900, first_offset=1000)
    given = {"partitions": logs.SHARDS, "engine": "lmdb"}
    before = write_store(logs.log_frame(spark, first), root, logs.SPEC, **given)  # type: ignore[arg-type]
    after = write_store(logs.log_frame(spark, second), root, mode=mode)
    assert (after.engine, after.partitions, after.spec) == ("lmdb", logs.SHARDS, before.spec)
    model = logs.model_of(first).put(second) if mode == "append" else logs.model_of(second)
    assert logs.history(spark, root) == logs.visible(model)


def test_a_root_whose_serde_is_not_built_in_needs_the_spec(spark: SparkSession, root: Path) -> None:
    spec = stores.key_value("own", value=Hexadecimal())
    log = spark.createDataFrame([(b"k", b"v")], "key binary, value binary")
    write_store(log, root, spec, partitions=1)
    with pytest.raises(SpecError, match=r"own.*Pass the spec of the store as spec="):
        write_store(log, root)
    assert write_store(log, root, spec).version == 2


def test_a_new_root_needs_a_spec_and_a_number_of_partitions(
    spark: SparkSession, root: Path
) -> None:
    log = logs.log_frame(spark, logs.make_log(4, 10, logs.SHARDS))
    for given in ({}, {"partitions": 2}, {"spec": logs.SPEC}):
        with pytest.raises(SpecError, match="has no version yet, so its store is unknown"):
            write_store(log, root, **given)  # type: ignore[arg-type]
    assert not root.exists()


def test_a_shard_without_new_records_is_not_written_again(spark: SparkSession, root: Path) -> None:
    first = logs.make_log(6, 100, logs.SHARDS)
    before = write_store(logs.log_frame(spark, first), root, logs.SPEC, partitions=logs.SHARDS)
    some = [logs.Record(b"k1", b"new", 2_000, (), "log", partition(b"k1", logs.SHARDS), 999)]
    after = write_store(logs.log_frame(spark, some), root, logs.SPEC, partitions=logs.SHARDS)
    changed = partition(b"k1", logs.SHARDS)
    for old, new in zip(before.shards, after.shards, strict=True):
        assert (old == new) == (old.shard != changed)


def test_records_that_a_shard_contains_are_not_put_again(spark: SparkSession, root: Path) -> None:
    """The same log once more, and a log that overlaps: only what is new counts."""
    log = logs.make_log(7, 300, logs.SHARDS, disorder=200)
    write_store(logs.log_frame(spark, log[:200]), root, logs.SPEC, partitions=logs.SHARDS)
    again = write_store(logs.log_frame(spark, log[:200]), root, logs.SPEC, partitions=logs.SHARDS)
    assert sum(shard.replayed for shard in again.shards) == 200
    assert logs.history(spark, root) == logs.history(spark, root, version=1)
    more = write_store(logs.log_frame(spark, log), root, logs.SPEC, partitions=logs.SHARDS)
    assert sum(shard.replayed for shard in more.shards) == 200
    assert logs.history(spark, root) == logs.visible(logs.model_of(log))


def test_overwriting_starts_from_nothing(spark: SparkSession, root: Path) -> None:
    first, second = logs.make_log(8, 100, logs.SHARDS), logs.make_log(9, 100, 2)
    write_store(logs.log_frame(spark, first), root, logs.SPEC, partitions=logs.SHARDS)
    new = write_store(
        logs.log_frame(spark, second), root, logs.SPEC, partitions=2, mode="overwrite"
    )
    assert (new.version, new.mode, len(new.shards)) == (2, "overwrite", 2)
    assert logs.history(spark, root) == logs.visible(logs.Model(2, logs.RETENTION).put(second))
    assert logs.history(spark, root, version=1) == logs.visible(logs.model_of(first))


def test_error_and_ignore_are_sparks(spark: SparkSession, root: Path) -> None:
    df = logs.log_frame(spark, logs.make_log(10, 20, logs.SHARDS))
    first = write_store(df, root, logs.SPEC, partitions=logs.SHARDS, mode="error")
    with pytest.raises(StateError, match="has version 1 of the store 'rates'"):
        write_store(df, root, logs.SPEC, partitions=logs.SHARDS, mode="error")
    assert write_store(df, root, logs.SPEC, partitions=logs.SHARDS, mode="ignore") == first
    assert Root.at(root).versions() == [1]


def test_an_empty_log_makes_an_empty_store(spark: SparkSession, root: Path) -> None:
    manifest = write_store(logs.log_frame(spark, []), root, logs.SPEC, partitions=logs.SHARDS)
    assert [shard.path for shard in manifest.shards] == [None] * logs.SHARDS
    assert logs.history(spark, root) == []
    log = logs.make_log(11, 30, logs.SHARDS)
    write_store(logs.log_frame(spark, log), root, logs.SPEC, partitions=logs.SHARDS)
    assert logs.history(spark, root) == logs.visible(logs.model_of(log))


@pytest.mark.parametrize("run_bytes", [None, 4096])
def test_sources_placed_anew_are_merged_by_stream_time(
    spark: SparkSession, root: Path, run_bytes: int | None
) -> None:
    """Five source partitions into two shards: no source makes another's records late."""
    log = logs.make_log(12, 800, 5, span=5_000, disorder=20)
    manifest = write_store(
        logs.log_frame(spark, log).repartition(4),
        root,
        logs.SPEC,
        partitions=2,
        partition_by="key",
        run_bytes=run_bytes,
    )
    assert manifest.late == 0
    everything = logs.Model(2, 10**9).put(log)
    everything.retention, everything.stream_times = (
        logs.RETENTION,
        {shard.shard: shard.stream_time for shard in manifest.shards},
    )
    assert logs.history(spark, root) == logs.visible(everything)
    for shard in manifest.shards:
        keys = [r for r in log if partition(r.key, 2) == shard.shard]
        assert {(o.topic, o.partition): o.offset for o in shard.offsets} == {
            ("log", record.partition): record.offset for record in keys
        }


def test_typed_columns_are_serialised(spark: SparkSession, root: Path) -> None:
    spec = stores.versioned_key_value("typed", 10**9, key=serdes.UTF8, value=serdes.FLOAT64)
    df = spark.sql(
        "select concat('k', id % 9) key, if(id % 4 = 3, null, id / 8D) value, id timestamp "
        "from range(100)"
    )
    write_store(df, root, spec, partitions=4)
    rows = read_store(spark, root, history=True, timestamps="millis").collect()
    assert len(rows) == 75
    for row in rows:
        assert row.key == f"k{row.timestamp % 9}"
        assert row.value == row.timestamp / 8
        assert row.partition == partition(row.key.encode(), 4)


@pytest.mark.parametrize(
    "spec",
    [
        stores.key_value("kv"),
        stores.timestamped_key_value("kv"),
        stores.timestamped_key_value_with_headers("kv"),
    ],
    ids=lambda spec: spec.format.name,
)
def test_key_value_stores(spark: SparkSession, root: Path, spec: Any) -> None:
    first = logs.make_log(13, 200, logs.SHARDS)
    second = logs.make_log(14, 100, logs.SHARDS, first_offset=1000)
    expected: dict[bytes, logs.Record] = {}
    for log in (first, second):
        write_store(logs.log_frame(spark, log), root, spec, partitions=logs.SHARDS)
        expected |= {record.key: record for record in log}
        rows = {
            bytes(r["key"]): r
            for r in read_store(spark, root, timestamps="millis").toArrow().to_pylist()
        }
        alive = {key: r for key, r in expected.items() if r.value is not None}
        assert rows.keys() == alive.keys()
        for key, row in rows.items():
            assert row["value"] == alive[key].value
            assert row["partition"] == alive[key].partition
            if spec.format.timestamped:
                assert row["timestamp"] == alive[key].timestamp
            if spec.format.headers:
                assert [(h["key"], h["value"]) for h in row["headers"]] == [*alive[key].headers]
        wanted = {"key", "value", "partition"}
        wanted |= {"timestamp"} if spec.format.timestamped else set()
        wanted |= {"headers"} if spec.format.headers else set()
        assert all(row.keys() == wanted for row in rows.values())


def test_micro_batches_go_on_from_one_another(
    spark: SparkSession, root: Path, tmp_path: Path
) -> None:
    """The batch that was running when the job ended comes again, and changes nothing then."""
    log = logs.make_log(19, 300, logs.SHARDS)
    for part in range(3):
        rows = logs.log_frame(spark, log[part * 100 : part * 100 + 100]).coalesce(1)
        rows.write.mode("append").parquet(str(tmp_path / "log"))
    schema = logs.log_frame(spark, log).schema
    stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)

    def write(batch: DataFrame, number: int) -> None:
        for _ in range(2 if number == 1 else 1):
            write_store(batch, root, logs.SPEC, partitions=logs.SHARDS)

    query = (
        stream.parquet(str(tmp_path / "log"))
        .writeStream.foreachBatch(write)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert Root.at(root).versions() == [1, 2, 3, 4]
    assert logs.history(spark, root) == logs.visible(logs.model_of(log))
