"""write_store: what is published is what putting the log one by one gives, or nothing is."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kstore_core import open_state, serdes, stores
from kstore_core.codec import partition
from kstore_core.errors import (
    CommitConflictError,
    CorruptionError,
    SpecError,
    StateError,
    UnknownEngineError,
    UnsupportedError,
)
from kstore_core.spark import read_store, write_store
from kstore_core.spark.roots import Root
from tests.spark.logs import (
    COLUMNS,
    Model,
    Record,
    in_order,
    log_frame,
    make_log,
    read_rows,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RETENTION = 300
SPEC = stores.versioned_key_value_with_headers("rates", RETENTION, 40)
SHARDS = 3


def history(spark: SparkSession, root: Path, **options: Any) -> list[Any]:
    return read_rows(read_store(spark, root, history=True, timestamps="millis", **options))


def visible(model: Model) -> list[Any]:
    """What the shards still hold: what ended before the horizon goes a segment at a time."""
    return in_order(
        version
        for version in model.history()
        if version.valid_to is None or version.valid_to // 40 >= model.horizon(version.shard) // 40
    )


def nothing_written(root: Path) -> bool:
    return not root.exists() or not list(root.rglob("*"))


@pytest.mark.parametrize(
    ("columns", "partition_by"),
    [
        (COLUMNS, None),
        (COLUMNS, "partition"),
        (COLUMNS, "key"),
        (("key", "value", "timestamp", "headers"), None),
        (("value", "headers", "timestamp", "offset", "key"), "key"),
        (("key", "value", "timestamp", "headers", "partition"), None),
    ],
)
def test_a_version_is_what_its_log_makes(
    spark: SparkSession, root: Path, columns: tuple[str, ...], partition_by: Any
) -> None:
    log = make_log(1, 600, SHARDS)
    df = log_frame(spark, log, columns)
    if "offset" in columns and "partition" in columns:
        df = df.repartition(5)  # their order is in their offsets
    else:
        df = df.coalesce(1)
    manifest = write_store(df, root, SPEC, partitions=SHARDS, partition_by=partition_by)
    model = Model(SHARDS, RETENTION).put(log)
    assert history(spark, root) == visible(model)
    assert manifest == Root(root).load()
    assert (manifest.version, manifest.mode, manifest.partitions) == (1, "append", SHARDS)
    assert (manifest.records, manifest.late) == (600, model.late)
    assert [shard.stream_time for shard in manifest.shards] == [
        model.stream_times[number] for number in range(SHARDS)
    ]


def test_a_shard_is_a_state_directory_of_kafkas_layout(spark: SparkSession, root: Path) -> None:
    log = make_log(2, 200, SHARDS)
    manifest = write_store(log_frame(spark, log), root, SPEC, partitions=SHARDS)
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
            assert state.open(SPEC).stream_time == shard.stream_time
    assert sum(shard.rows for shard in manifest.shards) > 0


def test_the_manifest_tells_every_file(spark: SparkSession, root: Path) -> None:
    manifest = write_store(log_frame(spark, make_log(3, 50, SHARDS)), root, SPEC, partitions=SHARDS)
    document = json.loads((root / "_kstore" / "1.json").read_text())
    assert document["spec"] == SPEC.describe()
    assert document["engine"] == "rocksdb"
    told = {root / str(shard.path) / file.path for shard in manifest.shards for file in shard.files}
    there = {path for path in (root / "attempts").rglob("*") if path.is_file()}
    assert told == there


def test_appending_goes_on_and_old_versions_stay(spark: SparkSession, root: Path) -> None:
    first = make_log(4, 300, SHARDS)
    second = make_log(5, 200, SHARDS, start=1_900, first_offset=1000)
    write_store(log_frame(spark, first), root, SPEC, partitions=SHARDS)
    write_store(log_frame(spark, second), root, SPEC, partitions=SHARDS)
    model = Model(SHARDS, RETENTION).put(first)
    assert history(spark, root, version=1) == visible(model)
    assert history(spark, root) == visible(model.put(second))


def test_a_shard_without_new_records_is_not_written_again(spark: SparkSession, root: Path) -> None:
    first = make_log(6, 100, SHARDS)
    before = write_store(log_frame(spark, first), root, SPEC, partitions=SHARDS)
    some = [Record(b"k1", b"new", 2_000, (), "log", partition(b"k1", SHARDS), 999)]
    after = write_store(log_frame(spark, some), root, SPEC, partitions=SHARDS)
    changed = partition(b"k1", SHARDS)
    for old, new in zip(before.shards, after.shards, strict=True):
        assert (old == new) == (old.shard != changed)


def test_records_that_a_shard_contains_are_not_put_again(spark: SparkSession, root: Path) -> None:
    """The same log once more, and a log that overlaps: only what is new counts."""
    log = make_log(7, 300, SHARDS, disorder=200)
    write_store(log_frame(spark, log[:200]), root, SPEC, partitions=SHARDS)
    again = write_store(log_frame(spark, log[:200]), root, SPEC, partitions=SHARDS)
    assert sum(shard.replayed for shard in again.shards) == 200
    assert history(spark, root) == history(spark, root, version=1)
    more = write_store(log_frame(spark, log), root, SPEC, partitions=SHARDS)
    assert sum(shard.replayed for shard in more.shards) == 200
    assert history(spark, root) == visible(Model(SHARDS, RETENTION).put(log))


def test_overwriting_starts_from_nothing(spark: SparkSession, root: Path) -> None:
    first, second = make_log(8, 100, SHARDS), make_log(9, 100, 2)
    write_store(log_frame(spark, first), root, SPEC, partitions=SHARDS)
    new = write_store(log_frame(spark, second), root, SPEC, partitions=2, mode="overwrite")
    assert (new.version, new.mode, len(new.shards)) == (2, "overwrite", 2)
    assert history(spark, root) == visible(Model(2, RETENTION).put(second))
    assert history(spark, root, version=1) == visible(Model(SHARDS, RETENTION).put(first))


def test_error_and_ignore_are_sparks(spark: SparkSession, root: Path) -> None:
    df = log_frame(spark, make_log(10, 20, SHARDS))
    first = write_store(df, root, SPEC, partitions=SHARDS, mode="error")
    with pytest.raises(StateError, match="holds version 1 of the store 'rates'"):
        write_store(df, root, SPEC, partitions=SHARDS, mode="error")
    assert write_store(df, root, SPEC, partitions=SHARDS, mode="ignore") == first
    assert Root(root).versions() == [1]


def test_an_empty_log_makes_an_empty_store(spark: SparkSession, root: Path) -> None:
    manifest = write_store(log_frame(spark, []), root, SPEC, partitions=SHARDS)
    assert [shard.path for shard in manifest.shards] == [None] * SHARDS
    assert history(spark, root) == []
    log = make_log(11, 30, SHARDS)
    write_store(log_frame(spark, log), root, SPEC, partitions=SHARDS)
    assert history(spark, root) == visible(Model(SHARDS, RETENTION).put(log))


def test_sources_placed_anew_are_merged_by_stream_time(spark: SparkSession, root: Path) -> None:
    """Five source partitions into two shards: no source makes another's records late."""
    log = make_log(12, 800, 5, span=5_000, disorder=20)
    manifest = write_store(
        log_frame(spark, log).repartition(4), root, SPEC, partitions=2, partition_by="key"
    )
    assert manifest.late == 0
    everything = Model(2, 10**9).put(log)
    everything.retention, everything.stream_times = (
        RETENTION,
        {shard.shard: shard.stream_time for shard in manifest.shards},
    )
    assert history(spark, root) == visible(everything)
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
    first = make_log(13, 200, SHARDS)
    second = make_log(14, 100, SHARDS, first_offset=1000)
    expected: dict[bytes, Record] = {}
    for log in (first, second):
        write_store(log_frame(spark, log), root, spec, partitions=SHARDS)
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


# What is refused, before anything is visible.


def sql_log(spark: SparkSession, columns: str, rows: int = 10) -> DataFrame:
    return spark.sql(f"select {columns} from range({rows})")


GOOD = (
    "cast('k' as binary) key, cast('v' as binary) value, timestamp_millis(id) timestamp, "
    "array(named_struct('key', 'h', 'value', cast('1' as binary))) headers"
)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("id", r"'key' is missing; 'value' is missing; .*'id' is unknown"),
        (
            GOOD.replace("timestamp_millis(id)", "timestamp_ntz'2020-01-01'"),
            "'timestamp' is timestamp_ntz, not",
        ),
        (GOOD + ", 1 extra", "'extra' is unknown"),
        (GOOD + ", '0' partition", "'partition' is string, not int or bigint"),
        (GOOD.replace("cast('k' as binary)", "id"), "'key' is bigint, not binary"),
        (GOOD.replace("cast('v' as binary)", "'v'"), "'value' is string, not binary"),
        (GOOD.rsplit(", array", 1)[0], r"'headers' is missing.*includeHeaders=true"),
        (
            GOOD.replace("'1' as binary", "1 as int"),
            "'headers' is array<struct<key:string,value:int>>",
        ),
        (GOOD + ", cast('k' as binary) key", "'key' is there twice"),
    ],
)
def test_columns_that_do_not_fit_are_named(
    spark: SparkSession, root: Path, columns: str, message: str
) -> None:
    with pytest.raises(SpecError, match=message):
        write_store(sql_log(spark, columns), root, SPEC, partitions=2)
    assert nothing_written(root)


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        (
            GOOD.replace("cast('k' as binary)", "if(id = 7, null, cast('k' as binary))"),
            {},
            "1 of 10 records have no key",
        ),
        (
            GOOD.replace("timestamp_millis(id)", "if(id > 7, null, id)"),
            {},
            "2 of 10 records have no timestamp",
        ),
        (GOOD.replace("timestamp_millis(id)", "id - 1"), {}, "cannot hold the time -1 ms"),
        (GOOD + ", 5 partition", {}, r"10 records have the partition 5, .*partitions=2"),
        (GOOD + ", -1 partition", {}, "have the partition -1"),
        (GOOD + ", cast(null as int) partition", {}, "10 of 10 records have no partition"),
        (
            GOOD + ", 1 partition",
            {},
            r"partition 1, but their keys belong to another: b'k' to 0 of 2",
        ),
        (GOOD + ", 1 partition", {"partition_by": "partition"}, "partition_by='key'"),
        (GOOD + ", if(id = 3, null, id) offset", {}, "1 of 10 records have no offset"),
    ],
)
def test_records_that_do_not_fit_are_told(
    spark: SparkSession, root: Path, columns: str, options: Any, message: str
) -> None:
    with pytest.raises(SpecError, match=message):
        write_store(sql_log(spark, columns), root, SPEC, partitions=2, **options)
    assert nothing_written(root)


def test_arguments_that_do_not_fit_are_told(spark: SparkSession, root: Path) -> None:
    df = sql_log(spark, GOOD)
    with pytest.raises(ValueError, match="mode='upsert'; there are: append"):
        write_store(df, root, SPEC, partitions=2, mode="upsert")  # type: ignore[arg-type]
    with pytest.raises(SpecError, match="partitions=0"):
        write_store(df, root, SPEC, partitions=0)
    with pytest.raises(ValueError, match="partition_by='keys'"):
        write_store(df, root, SPEC, partitions=2, partition_by="keys")  # type: ignore[arg-type]
    with pytest.raises(SpecError, match="has no column 'partition'"):
        write_store(df, root, SPEC, partitions=2, partition_by="partition")
    with pytest.raises(UnsupportedError, match="'memory' keeps its data in the process"):
        write_store(df, root, SPEC, partitions=2, engine="memory")
    with pytest.raises(UnknownEngineError, match="no engine named 'rocks'"):
        write_store(df, root, SPEC, partitions=2, engine="rocks")
    with pytest.raises(UnsupportedError, match="object stores"):
        write_store(df, "s3://bucket/x", SPEC, partitions=2)
    stream = spark.readStream.format("rate").load()
    with pytest.raises(UnsupportedError, match="is a stream"):
        write_store(stream, root, SPEC, partitions=2)
    assert nothing_written(root)


@pytest.mark.parametrize(
    ("spec", "options", "message"),
    [
        (
            stores.versioned_key_value_with_headers("other", RETENTION, 40),
            {},
            "name is 'rates' there and 'other' here",
        ),
        (stores.timestamped_key_value_with_headers("rates"), {}, "shape is 'versioned' there"),
        (
            stores.timestamped_key_value_with_headers("rates"),
            {"mode": "overwrite"},
            "shape is .*Use another root",
        ),
        (
            stores.versioned_key_value("rates", RETENTION, 40),
            {},
            "format is 'versioned_headers' there",
        ),
        (
            stores.versioned_key_value_with_headers("rates", RETENTION, 41),
            {},
            "segment_interval_ms is 40 there",
        ),
        (
            stores.versioned_key_value_with_headers("rates", RETENTION, 40, key=serdes.UTF8),
            {},
            "key is 'bytes' there",
        ),
        (SPEC, {"partitions": 4}, "partitions is 3 there and 4 here.*Mode='overwrite'"),
    ],
)
def test_another_store_at_the_root_is_refused(
    spark: SparkSession, root: Path, spec: Any, options: Any, message: str
) -> None:
    write_store(log_frame(spark, make_log(15, 20, SHARDS)), root, SPEC, partitions=SHARDS)
    before = sorted(root.rglob("*"))
    with pytest.raises(SpecError, match=message):
        write_store(
            log_frame(spark, make_log(16, 20, SHARDS)),
            root,
            spec,
            **{"partitions": SHARDS, **options},
        )
    assert sorted(root.rglob("*")) == before


def test_a_state_directory_is_no_root(spark: SparkSession, root: Path) -> None:
    with open_state(root, engine="rocksdb") as state:
        state.open(SPEC)
    with pytest.raises(StateError, match="holds no partitioned store"):
        write_store(sql_log(spark, GOOD), root, SPEC, partitions=2)


def test_a_failing_task_leaves_nothing(spark: SparkSession, root: Path) -> None:
    """Spark gives up on a task; other tasks may have uploaded already."""
    df = sql_log(
        spark,
        "cast(concat('k', id) as binary) key, "
        "if(id = 5, cast(raise_error('boom') as binary), null) value, id timestamp, "
        "array() :: array<struct<key:string,value:binary>> headers",
    )
    with pytest.raises(Exception, match="boom"):
        write_store(df, root, SPEC, partitions=2)
    assert nothing_written(root)


def test_a_damaged_shard_is_not_gone_on_from(spark: SparkSession, root: Path) -> None:
    log = make_log(17, 100, SHARDS)
    manifest = write_store(log_frame(spark, log[:50]), root, SPEC, partitions=SHARDS)
    shard = manifest.shards[0]
    victim = next(f for f in shard.files if f.bytes > 20)
    path = root / str(shard.path) / victim.path
    path.write_bytes(b"\0" * victim.bytes)
    with pytest.raises(CorruptionError, match="is not what its manifest says"):
        write_store(log_frame(spark, log), root, SPEC, partitions=SHARDS)
    assert Root(root).versions() == [1]
    assert [p.name for p in (root / "attempts").iterdir()] == [manifest.job]


def test_of_two_writers_at_once_one_publishes(
    spark: SparkSession, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both go on from version 1 and meet before the manifest is put in place."""
    log = make_log(18, 60, SHARDS)
    write_store(log_frame(spark, log[:20]), root, SPEC, partitions=SHARDS)
    barrier, publish = threading.Barrier(2, timeout=120), Root.publish

    def publish_together(home: Root, manifest: Any) -> None:
        barrier.wait()
        publish(home, manifest)

    monkeypatch.setattr(Root, "publish", publish_together)
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
    assert Root(root).versions() == [1, 2]
    assert Root(root).load() == won
    jobs = {path.name for path in (root / "attempts").iterdir()}
    assert jobs == {Root(root).load(1).job, won.job}
