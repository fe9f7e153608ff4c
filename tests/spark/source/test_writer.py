"""``df.write.format("kstore")``: the same versions as write_store makes, or a refusal."""

from __future__ import annotations

import pickle
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from kstore_core import serdes, stores
from kstore_core.errors import CommitConflictError, SpecError, StateError, UnsupportedError
from kstore_core.spark import by_shard, read_store, spec_json
from kstore_core.spark.root.root import Root
from kstore_core.spark.shards import writing
from kstore_core.spark.shards.frames import spark_schema
from kstore_core.spark.source.options import READ_OPTIONS
from kstore_core.spark.source.write_options import WRITE_OPTIONS, write_options
from kstore_core.spark.source.writer import BatchWriter
from tests.spark.support import logs
from tests.spark.support.faults import files_below, referred
from tests.spark.support.object_store import Bucket
from tests.spark.write.contents import contents

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = spark_schema(logs.log_table([]).schema)
LOG = logs.make_log(31, 60, logs.SHARDS)


def options(root: Any, **more: str) -> dict[str, str]:
    return {"path": str(root), "spec": spec_json(logs.SPEC), "partitions": str(logs.SHARDS), **more}


def written(writer: BatchWriter, *tasks: pa.Table) -> list[Any]:
    """What Spark does with the writer: it travels to tasks, their messages come back."""
    there = pickle.loads(pickle.dumps(writer))
    return [
        pickle.loads(pickle.dumps(there.build(iter(rows.to_batches()), 10 + number)))
        for number, rows in enumerate(tasks)
    ]


@pytest.mark.parametrize("run_bytes", [None, 1000])
def test_one_task_may_write_all_shards(
    root: Path, run_bytes: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_disk = []

    class Spool(writing.LogSpool):
        def runs(self) -> Any:
            on_disk.append(self.is_on_disk)
            return super().runs()

    monkeypatch.setattr(writing, "LogSpool", Spool)
    more = {} if run_bytes is None else {"run_bytes": str(run_bytes)}
    writer = BatchWriter(options(root, **more), SCHEMA, False)
    log = logs.log_table(LOG)
    parts = pa.Table.from_batches(log.to_batches(max_chunksize=7))
    writer.commit(written(writer, parts, logs.log_table([])))
    assert on_disk == [run_bytes is not None] * logs.SHARDS
    assert contents(Root.at(root)) == logs.visible(logs.model_of(LOG))
    assert files_below(root) == referred(Root.at(root))


def test_a_task_a_shard_and_then_more(root: Path) -> None:
    """The second write takes what the store is from the version that is there."""
    shards = [[r for r in LOG if r.partition == number] for number in range(logs.SHARDS)]
    writer = BatchWriter(options(root), SCHEMA, False)
    writer.commit(written(writer, *(logs.log_table(rows[:10]) for rows in shards)))
    writer = BatchWriter({"path": str(root)}, SCHEMA, False)
    writer.commit(written(writer, *(logs.log_table(rows) for rows in shards)))
    home = Root.at(root)
    assert contents(home) == logs.visible(logs.model_of(LOG))
    assert home.load().mode == "append"
    assert sum(shard.replayed for shard in home.load().shards) == 30
    writer = BatchWriter({"path": str(root)}, SCHEMA, True)
    writer.commit(written(writer, logs.log_table(LOG[:20])))
    assert home.load().mode == "overwrite"
    assert contents(home) == logs.visible(logs.model_of(LOG[:20]))


def test_records_of_one_shard_in_two_tasks_are_refused(root: Path) -> None:
    writer = BatchWriter(options(root), SCHEMA, False)
    messages = written(writer, logs.log_table(LOG[:30]), logs.log_table(LOG[30:]))
    with pytest.raises(SpecError, match=r"two tasks have records of shard \d.*by_shard"):
        writer.commit(messages)
    writer.abort(messages)
    assert files_below(root) == set()


def test_records_in_the_wrong_partition_are_refused(root: Path) -> None:
    rows = logs.log_table(LOG)
    moved = rows.set_column(5, "partition", pa.array([1] * len(rows), pa.int32()))
    writer = BatchWriter(options(root), SCHEMA, False)
    with pytest.raises(
        SpecError, match=r"their keys belong to other partitions.*partition_by='key'"
    ):
        writer.commit(written(writer, moved))
    writer.abort([])
    assert files_below(root) == set()
    writer = BatchWriter(options(root, partition_by="key"), SCHEMA, False)
    writer.commit(written(writer, moved))
    assert Root.at(root).versions() == [1]


def test_null_keys_are_refused(root: Path) -> None:
    rows = logs.log_table(LOG[:3])
    bad = rows.set_column(0, "key", pa.array([b"k", None, b"k"]))
    writer = BatchWriter(options(root), SCHEMA, False)
    with pytest.raises(SpecError, match="1 of 3 records have no key"):
        writer.commit(written(writer, bad))


def test_of_two_writers_one_commits(root: Path) -> None:
    writers = [BatchWriter(options(root), SCHEMA, False) for _ in range(2)]
    messages = [written(writer, logs.log_table(LOG)) for writer in writers]
    writers[1].commit(messages[1])
    with pytest.raises(CommitConflictError, match=r"1\.json was published by another writer"):
        writers[0].commit(messages[0])
    writers[0].abort(messages[0])
    assert files_below(root) == referred(Root.at(root))


def test_an_abort_after_the_commit_takes_nothing(root: Path) -> None:
    """As Spark does where the answer of a commit is lost."""
    writer = BatchWriter(options(root), SCHEMA, False)
    messages = written(writer, logs.log_table(LOG))
    writer.commit(messages)
    writer.abort(messages)
    assert files_below(root) == referred(Root.at(root))
    assert contents(Root.at(root))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"path": ""}, r"the path is missing; .*\.save\("),
        ({"path": "rel/ative"}, "'rel/ative' is relative, but Spark's processes"),
        ({"partitions": "0"}, "partitions='0' is not a number of 1 or more"),
        ({"partitions": "x"}, "partitions='x' is not a number"),
        ({"partition_by": "hash"}, "partition_by='hash' is not key or partition: no other text"),
        ({"run_bytes": "1e6"}, "run_bytes='1e6' is not a number of 1 or more"),
        ({"engine": ""}, "engine='' is not the name of an engine"),
        ({"spec": "{}"}, "option spec='{}' is not JSON"),
        ({"partition": "3"}, r"no option 'partition'. Did you mean 'partitions'\?"),
        ({"as_of": "3"}, "a write of kstore has no option 'as_of'. The options are: path, spec"),
    ],
)
def test_options_that_do_not_fit_are_named(change: dict[str, str], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        write_options({**options("/x"), **change})


def test_options_are_read() -> None:
    asked = write_options(
        {
            "PATH": "s3://b/x",
            "Partitions": "7",
            "Storage.Key": "Ab",
            "partition_by": "key",
            "run_bytes": "4096",
        }
    )
    assert asked.run_bytes == 4096
    assert (asked.path, asked.partitions, asked.partition_by) == ("s3://b/x", 7, "key")
    assert asked.storage == {"Key": "Ab"}
    assert asked.spec is None
    assert set(WRITE_OPTIONS) == {
        *("spec", "partitions", "partition_by", "engine", "partition_time", "run_bytes")
    }


def test_a_spec_is_told_as_text() -> None:
    assert READ_OPTIONS["spec"].parse(spec_json(logs.SPEC)) == logs.SPEC

    class Own:
        name = "own"
        arrow_type = pa.int64()

        def serialize(self, value: int, headers: Any) -> bytes:
            return b"%d" % value

        def deserialize(self, data: bytes, headers: Any) -> int:
            return int(data)

    with pytest.raises(SpecError, match=r"'orders' cannot be described in JSON.*module:NAME"):
        spec_json(stores.key_value("orders", value=Own()))


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"spec": None}, SpecError, "so its store is unknown; pass a spec and the number"),
        ({"partitions": None}, SpecError, "so its store is unknown"),
        ({"engine": "memory"}, UnsupportedError, "'memory' keeps its data in the process"),
    ],
)
def test_a_new_store_has_to_be_described(
    root: Path, change: dict[str, Any], error: type[Exception], message: str
) -> None:
    given = {name: text for name, text in {**options(root), **change}.items() if text is not None}
    with pytest.raises(error, match=message):
        BatchWriter(given, SCHEMA, False)
    assert not root.exists()


def test_nothing_is_begun_where_it_does_not_fit(root: Path) -> None:
    with pytest.raises(SpecError, match="'headers' is missing"):
        BatchWriter(options(root), spark_schema(logs.log_table([]).schema.remove(3)), False)
    root.mkdir()
    (root / "somebody").touch()
    with pytest.raises(StateError, match="it contains 'somebody'"):
        BatchWriter(options(root), SCHEMA, False)
    assert files_below(root) == {"somebody"}


def test_a_description_in_a_module_does(root: Path) -> None:
    writer = BatchWriter(options(root, spec="tests.spark.support.logs:SPEC"), SCHEMA, False)
    writer.commit(written(writer, logs.log_table(LOG)))
    assert Root.at(root).load().spec == logs.SPEC.describe()


def test_spark_writes_through_it(spark: SparkSession, root: Path) -> None:
    """Three tasks whose records are laid out by shard; then as they come, which is refused."""
    log = logs.make_log(41, 200, logs.SHARDS)
    df = logs.log_frame(spark, log).repartition(4)
    laid_out = by_shard(df, logs.SPEC, logs.SHARDS)
    laid_out.write.format("kstore").mode("append").options(
        spec=spec_json(logs.SPEC), partitions=logs.SHARDS
    ).save(str(root))
    assert logs.history(spark, root) == logs.visible(logs.model_of(log))
    assert files_below(root) == referred(Root.at(root))
    with pytest.raises(Exception, match=r"two tasks have records of shard \d"):
        logs.log_frame(spark, logs.make_log(42, 200, logs.SHARDS, first_offset=1000)).repartition(
            4
        ).write.format("kstore").mode("append").save(str(root))
    assert files_below(root) == referred(Root.at(root))
    assert Root.at(root).versions() == [1]


def test_by_shard_keeps_an_order(spark: SparkSession) -> None:
    """Without offsets: the number of each record comes along, and the last one counts."""
    spec = stores.key_value("kv", key=serdes.UTF8, value=serdes.INT64)
    df = spark.sql("select concat('k', id % 7) key, id value from range(0, 70, 1, 1)")
    laid_out = by_shard(df, spec, logs.SHARDS)
    assert laid_out.columns == ["key", "value", "arrival"]
    rows = laid_out.toArrow()
    order = rows.sort_by("arrival")["value"].to_pylist()
    assert order == list(range(70))
    with pytest.raises(SpecError, match="partitions=0"):
        by_shard(df, spec, 0)


@pytest.mark.parametrize(
    "kind",
    [
        *("bucket", "google_bucket"),
        pytest.param("azure_bucket", marks=pytest.mark.slow),
        pytest.param("hdfs_bucket", marks=pytest.mark.slow),
    ],
)
def test_spark_writes_and_reads_an_object_store(
    spark: SparkSession, request: pytest.FixtureRequest, kind: str
) -> None:
    """Windows, through the data source both ways; then more of them, by write_store."""
    from kstore_core.spark import vacuum, verify_root, write_store

    bucket: Bucket = request.getfixturevalue(kind)
    spec = stores.timestamped_window("clicks", 10**9, 100, key=serdes.UTF8, value=serdes.INT64)
    storage = {f"storage.{name}": value for name, value in bucket.options.items()}
    rows = (
        "select concat('k', id % 9) key, id % 3 * 100 window_start, id value, id timestamp "
        "from range({}, {}, 1, 2)"
    )
    by_shard(spark.sql(rows.format(0, 90)), spec, logs.SHARDS).write.format("kstore").mode(
        "append"
    ).options(spec=spec_json(spec), partitions=logs.SHARDS, **storage).save(bucket.address())
    more = spark.sql(rows.format(90, 120))
    manifest = write_store(
        more, bucket.address(), spec, partitions=logs.SHARDS, storage_options=bucket.options
    )
    assert manifest.version == 2
    found = {
        (row.key, row.window_start): row.value
        for row in spark.read.format("kstore")
        .options(timestamps="millis", **storage)
        .load(bucket.address())
        .collect()
    }
    assert found == {(f"k{i % 9}", i % 3 * 100): i for i in range(120)}
    assert read_store(
        spark, bucket.address(), version=1, storage_options=bucket.options
    ).count() == len(found)
    assert {name.removeprefix("stores/rates/") for name in bucket.files()} == referred(
        bucket.root()
    )
    assert verify_root(bucket.address(), storage_options=bucket.options).exit_code == 0
    time.sleep(1.1)  # the services tell seconds
    gone = vacuum(bucket.address(), grace_s=0, keep_versions=1, storage_options=bucket.options)
    assert gone.versions == (1,)
    assert {name.removeprefix("stores/rates/") for name in bucket.files()} == referred(
        bucket.root()
    )
