"""The public functions of kstore_core.spark on a Spark Connect session.

:mod:`tests.spark.connect.test_connect` runs this file in a process of its own, because a Connect
session and a classic session cannot share a process. The process of the client may not touch the
directory `root` and what is below it: only the server has it.
"""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kstore_core import open_state, serdes, stores
from kstore_core.codec import partition
from kstore_core.errors import (
    CommitConflictError,
    SpecError,
    StateError,
    UnsupportedError,
)
from kstore_core.spark import (
    by_shard,
    check_cluster,
    foreign_key_join,
    local_session,
    map_state,
    read_changes,
    read_metadata,
    read_store,
    read_streams_dir,
    register_as_of,
    register_views,
    rescale,
    run_on_spark,
    spec_json,
    temporal_join,
    vacuum,
    verify_root,
    with_partition_time,
    write_store,
)
from kstore_core.spark.root.storage.objects import ObjectStore
from tests.changelog.mock_cluster import mock_cluster, topic_maker
from tests.spark.connect.lethal import LETHAL, lethally_planned
from tests.spark.kafka.topics import check_batch_read
from tests.spark.map_state.task_runs import TOTALS, running_total
from tests.spark.subtopologies.task_runs import adding
from tests.spark.support import logs
from tests.spark.support.object_store import Bucket
from tests.spark.support.streams import AVAILABLE, add_epochs, epochs_of, run, slices_of
from tests.support.spark_home import make_spark_home

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]


class Own:
    """A serde that is not built in."""

    name = "own"
    arrow_type = serdes.BYTES.arrow_type

    def serialize(self, value: bytes | None, headers: object = ()) -> bytes | None:
        return value

    def deserialize(self, data: bytes, headers: object = ()) -> bytes:
        return data


LOG = logs.make_log(5, 600, logs.SHARDS)
MODEL = logs.model_of(LOG)
_hidden: list[str] = []


@pytest.fixture(scope="session")
def event_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the event log of the server."""
    return tmp_path_factory.mktemp("events")


@pytest.fixture(scope="session")
def spark(event_log: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A Connect session, with its server."""
    from pyspark.sql import SparkSession

    from kstore_core.spark.runtime.java import use_java

    use_java()
    home = make_spark_home(tmp_path_factory.mktemp("home") / "spark", mllib=True)
    os.environ["SPARK_HOME"] = str(home)
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = (
        SparkSession.builder.remote("local[2,2]")  # Spark repeats a task whose worker is killed
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "1g")
        .config("spark.sql.shuffle.partitions", "3")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.eventLog.enabled", "true")
        .config("spark.eventLog.dir", str(event_log))
        .config("spark.eventLog.compress", "false")
    )
    with warnings.catch_warnings():
        # PySpark passes settings to the server that it starts, and warns that they are fixed then.
        warnings.filterwarnings("ignore", "Failed to set spark", UserWarning)
        session = builder.getOrCreate()
    assert type(session).__module__ == "pyspark.sql.connect.session"
    sys.addaudithook(_refuse)
    yield session
    session.stop()


def _refuse(event: str, args: tuple[Any, ...]) -> None:
    """Refuse files of a hidden directory to this process."""
    if _hidden and event.startswith(("open", "os.", "shutil.")):
        for given in args:
            path = given if isinstance(given, str) else None
            if isinstance(given, os.PathLike | bytes):
                path = os.fsdecode(given)
            if path is not None and path.startswith(_hidden[0]):
                raise AssertionError(f"the client touched {path}: {event}")


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """A root that the process of the client cannot touch."""
    root = tmp_path / "server" / "root"
    _hidden.append(str(tmp_path / "server"))
    yield root
    _hidden.clear()


@pytest.fixture
def store(spark: SparkSession, root: Path) -> Path:
    """The root of a store that `write_store` has written."""
    written = write_store(logs.log_frame(spark, LOG), root, logs.SPEC, partitions=logs.SHARDS)
    assert (written.version, written.records, written.late) == (1, len(LOG), MODEL.late)
    return root


def test_the_client_cannot_touch_the_root(spark: SparkSession, root: Path) -> None:
    for touch in (root.mkdir, lambda: list(root.parent.iterdir()), (root / "file").open):
        with pytest.raises(AssertionError, match="the client touched"):
            touch()


def test_local_session_is_the_active_session(spark: SparkSession) -> None:
    assert local_session() is spark


def test_check_cluster(spark: SparkSession, root: Path) -> None:
    (worker,) = check_cluster(spark, root)
    assert worker.tasks == 2
    assert worker.interpreter == sys.executable
    assert [row.tasks for row in check_cluster(spark, tasks=3)] == [3]
    with pytest.raises(UnsupportedError, match="keeps its data in the process"):
        check_cluster(spark, engine="memory")


def test_write_store_and_read_store(spark: SparkSession, store: Path) -> None:
    assert logs.history(spark, store) == logs.visible(MODEL)
    times = [record.timestamp for record in LOG]
    time = sorted(times)[len(times) * 3 // 4]
    found = logs.read_rows(read_store(spark, store, as_of=time, timestamps="millis"))
    asked = (MODEL.as_of(key, time) for key in MODEL.versions)
    assert found == logs.in_order(version for version in asked if version is not None)
    key = LOG[0].key
    one = logs.history(spark, store, key=key)
    assert one == [version for version in logs.visible(MODEL) if version.key == key]


def test_write_store_appends_overwrites_and_refuses(spark: SparkSession, store: Path) -> None:
    more = logs.make_log(6, 100, logs.SHARDS, first_offset=1_000, start=2_000)
    assert write_store(logs.log_frame(spark, more), store).version == 2
    assert logs.history(spark, store) == logs.visible(logs.model_of([*LOG, *more]))
    assert logs.history(spark, store, version=1) == logs.visible(MODEL)
    frame = logs.log_frame(spark, more)
    assert write_store(frame, store, mode="ignore").version == 2
    with pytest.raises(StateError, match="already has version 2 of the store 'rates'"):
        write_store(frame, store, mode="error")
    with pytest.raises(SpecError, match="partitions is 3 in the root and 4 in this write"):
        write_store(frame, store, partitions=4)
    write_store(frame, store, mode="overwrite")
    assert logs.history(spark, store) == logs.visible(logs.model_of(more))
    wrong = logs.log_frame(spark, [*more, logs.Record(b"k0", b"v", 2_000, partition=1, offset=1)])
    with pytest.raises(SpecError, match="partition"):
        write_store(wrong, store)
    names = read_metadata(spark, store, "versions").toArrow()["version"].to_pylist()
    assert names == [1, 2, 3]


def test_of_two_writers_at_once_one_publishes(spark: SparkSession, store: Path) -> None:
    from kstore_core.spark.runtime.server import on_server
    from kstore_core.spark.write.write_store import _planned

    def planned() -> Any:
        given: dict[str, Any] = {"engine": None, "partitions": None}
        return on_server(spark, _planned, store, None, None, "append", **given)

    first, second = planned(), planned()
    for job in (first, second):
        on_server(spark, job.begin)
    on_server(spark, first.publish_manifest, first.manifest([]))
    with pytest.raises(CommitConflictError, match="was published by another writer"):
        on_server(spark, second.publish_manifest, second.manifest([]))
    assert logs.history(spark, store, version=2) == logs.visible(MODEL)


@pytest.mark.parametrize("step", ["begun", "closed", "published"])
def test_a_worker_that_publishes_is_killed(
    spark: SparkSession, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    frame = logs.log_frame(spark, LOG)
    module = importlib.import_module("kstore_core.spark.write.write_store")
    (tmp_path / LETHAL).write_text(step)
    with monkeypatch.context() as patched:
        patched.setattr(module, "_planned", lethally_planned)
        if step == "closed":
            with pytest.raises(
                StateError, match=r"version 1 of .* died, so the version may or may"
            ):
                write_store(frame, root, logs.SPEC, partitions=logs.SHARDS)
        else:
            assert write_store(frame, root, logs.SPEC, partitions=logs.SHARDS).version == 1
    assert not (tmp_path / LETHAL).exists(), "nothing was killed"
    if step == "closed":  # The message says that the job can be run again.
        assert write_store(frame, root, logs.SPEC, partitions=logs.SHARDS).version == 1
    assert logs.history(spark, root) == logs.visible(MODEL)
    found = verify_root(root, spark=spark).findings
    assert [each.severity for each in found] == ["note"] * (step == "closed")  # for a vacuum


def test_object_stores(
    spark: SparkSession,
    bucket: Bucket,
    event_log: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(self: ObjectStore) -> Any:
        raise AssertionError(f"the client used {self.address}")

    monkeypatch.setattr(ObjectStore, "_client", refuse)
    with pytest.raises(AssertionError, match="the client used s3://"):
        bucket.root()
    where: Any = bucket.address()
    options: dict[str, Any] = {"storage_options": bucket.options}
    half = len(LOG) // 2
    frames = [logs.log_frame(spark, records) for records in (LOG[:half], LOG[half:])]
    assert [worker.tasks for worker in check_cluster(spark, where, **options)] == [2]
    write_store(frames[0], where, logs.SPEC, partitions=logs.SHARDS, **options)
    assert write_store(frames[1], where, **options).version == 2
    assert logs.history(spark, where, **options) == logs.visible(MODEL)
    asked = [(each.key, each.timestamp) for each in LOG[::9]]
    joined = temporal_join(
        spark.createDataFrame(asked, "key binary, time bigint"),
        where,
        key="key",
        timestamp="time",
        **options,
    )
    found = sorted((bytes(row.key), row.time, row.table_value) for row in joined.collect())
    versions = [(*each, MODEL.as_of(*each)) for each in asked]
    assert found == sorted((key, time, each and each.value) for key, time, each in versions)
    assert verify_root(where, spark=spark, **options).findings == []
    assert vacuum(where, grace_s=0, keep_versions=1, spark=spark, **options).versions == (1,)
    assert logs.history(spark, where, **options) == logs.visible(MODEL)
    rows = spark.createDataFrame([("a", 1), ("b", 2), ("a", 3)], "key string, amount bigint")
    for first in (0, 4):
        totals = map_state(
            rows.coalesce(1),
            running_total,
            TOTALS,
            root=bucket.address("totals"),
            schema="key string, total bigint",
            **options,
        )
        assert ("a", first + 4) in [(row.key, row.total) for row in totals.collect()]
        done = rescale(bucket.address("totals"), partitions=5 + first, spark=spark, **options)
        assert (done.partitions, done.rows) == (5 + first, 2)
    add_epochs(tmp_path / "in", [LOG])
    streamed: Any = bucket.address("streamed")
    run(epochs_of(spark, tmp_path / "in"), streamed, tmp_path / "checkpoint", **options)
    assert logs.history(spark, streamed, **options) == logs.visible(MODEL)
    assert vacuum(streamed, grace_s=0, spark=spark, **options).files == ()
    # Spark writes the options of a query to its event log, so they must not have the credentials.
    events = "".join(file.read_text() for file in event_log.glob("*/events_*"))
    assert "write_stream_operation_start" in events
    secret = bucket.options["secret_access_key"]
    assert secret not in events
    for file in (tmp_path / "checkpoint").rglob("*"):
        assert file.is_dir() or secret.encode() not in file.read_bytes()


def test_a_foreach_batch_that_calls_kstore(spark: SparkSession, root: Path, tmp_path: Path) -> None:
    source, where = tmp_path / "in", str(root)
    add_epochs(source, slices_of(LOG, 3))

    def append(batch: DataFrame, epoch: int) -> None:
        if epoch == 0:
            written = write_store(batch, where, logs.SPEC, partitions=logs.SHARDS)
        else:
            written = write_store(batch, where)
        before = read_store(batch.sparkSession, where, version=max(epoch, 1)).count()
        assert (written.version, before > 0) == (epoch + 1, True)

    writer = epochs_of(spark, source).writeStream.foreachBatch(append).trigger(**AVAILABLE)
    writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination()
    assert logs.history(spark, root) == logs.visible(MODEL)
    versions = read_metadata(spark, root, "versions").toArrow()["version"].to_pylist()
    assert versions == [1, 2, 3]


def test_errors_and_warnings_keep_their_types(spark: SparkSession, root: Path) -> None:
    with pytest.raises(StateError, match="has no store: there is no manifest"):
        read_store(spark, root)
    with pytest.raises(SpecError, match="has no version yet, so its store is unknown"):
        write_store(logs.log_frame(spark, LOG), root)


def test_read_changes_and_read_metadata(spark: SparkSession, store: Path) -> None:
    changes = read_changes(spark, store, 0, timestamps="millis").toArrow()
    assert set(changes["_change"].to_pylist()) == {"insert"}
    rows = logs.read_rows(read_changes(spark, store, 0, timestamps="millis").drop("_change"))
    assert rows == logs.visible(MODEL)
    shards = read_metadata(spark, store).toArrow()
    assert sum(shards["records"].to_pylist()) == len(LOG)


def test_the_data_source(spark: SparkSession, store: Path, tmp_path: Path) -> None:
    reader = spark.read.format("kstore").option("history", "true")
    found = reader.option("timestamps", "millis").load(str(store))
    assert logs.read_rows(found) == logs.visible(MODEL)
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW r USING kstore OPTIONS (path '{store}')")
    latest = logs.in_order(v for v in MODEL.history() if v.valid_to is None)
    keys = spark.sql("SELECT key FROM r ORDER BY key").toArrow()["key"].to_pylist()
    assert keys == [version.key for version in latest]
    other = store.with_name("other")
    frame = by_shard(logs.log_frame(spark, LOG), logs.SPEC, logs.SHARDS)
    writer = frame.write.format("kstore").mode("append").option("spec", spec_json(logs.SPEC))
    writer.option("partitions", logs.SHARDS).save(str(other))
    assert logs.history(spark, other) == logs.visible(MODEL)


def test_temporal_join(spark: SparkSession, store: Path) -> None:
    asked = [(f"k{n % 25}".encode(), 1_000 + 7 * n) for n in range(150)]
    frame = spark.createDataFrame(asked, "key binary, time bigint")
    for broadcast_bytes in (10**9, 0):
        joined = temporal_join(
            frame, store, key="key", timestamp="time", broadcast_bytes=broadcast_bytes
        )
        found = {
            (row["key"], row["time"]): (row["table_value"], row["table_timestamp"])
            for row in joined.toArrow().to_pylist()
        }
        versions = {each: MODEL.as_of(*each) for each in asked}
        assert found == {
            each: (None, None) if version is None else (version.value, version.timestamp)
            for each, version in versions.items()
        }


def test_register_views(spark: SparkSession, store: Path) -> None:
    names = register_views(spark, store, timestamps="millis", changes_from=0, metadata=["shards"])
    assert names == ("rates", "rates_history", "rates_changes", "rates_shards")
    assert logs.read_rows(spark.table("rates_history")) == logs.visible(MODEL)
    counts = "select (select count(*) from rates) + (select count(*) from rates_changes)"
    latest = read_store(spark, store).count()
    assert spark.sql(counts).collect() == [(latest + len(logs.visible(MODEL)),)]
    with pytest.raises(SpecError, match="already a view or table 'rates'"):
        register_views(spark, store, replace=False)


def test_register_as_of(spark: SparkSession, store: Path) -> None:
    facts = spark.range(200).selectExpr("id", "cast('k1' as binary) k", "900 + id * 5 t")
    joined = temporal_join(facts, store, key="k", timestamp="t").orderBy("id")
    want = [row.table_value for row in joined.collect()]
    register_as_of(spark, store, "rate_at")
    facts.createOrReplaceTempView("facts")
    found = spark.sql("select rate_at(k, t).value v from facts order by id").collect()
    assert [row.v for row in found] == want
    assert any(value is not None for value in want)


def test_filters_of_one_query_stay_with_it(spark: SparkSession, store: Path) -> None:
    """The setting for push-down is on, and the plan of the DataFrame is in the server's cache."""
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    df = spark.read.format("kstore").option("history", "true").load(str(store))
    assert "key" in df.columns
    every = len(logs.visible(MODEL))
    one = sum(version.key == b"k1" for version in logs.visible(MODEL))
    filtered = df.where("key = X'6B31'")
    assert [filtered.count(), df.count(), filtered.count()] == [one, every, one]
    assert df.where("key = X'6B32'").union(filtered).union(df).count() > every + one
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")


def test_errors_begin_with_their_text(spark: SparkSession, store: Path) -> None:
    source = spark.read.format("kstore")
    with pytest.raises(Exception, match="kee") as planned:
        source.option("kee", "a").load(str(store)).collect()
    first = str(planned.value).splitlines()[0]
    assert "kstore_core.errors.SpecError: a read of kstore has no option 'kee'. Did you" in first
    assert "Traceback" not in str(planned.value)
    register_as_of(spark, store, "rate_at")
    with pytest.raises(Exception, match="rate_at") as evaluated:
        spark.sql("select rate_at('k1', 1L)").collect()
    told = " ".join(str(evaluated.value).splitlines()[:3])
    assert "kstore_core.errors.SpecError: the key of rate_at is string" in told
    assert "Traceback" not in str(evaluated.value)


def test_foreign_key_join(spark: SparkSession, store: Path) -> None:
    left = store.with_name("left")
    spec = stores.versioned_key_value_with_headers("left", 10**9)
    records = [logs.Record(b"a", b"k1", 1_000), logs.Record(b"b", b"k2", 1_200, offset=1)]
    write_store(
        logs.log_frame(spark, records).drop("partition", "offset"), left, spec, partitions=2
    )
    joined = foreign_key_join(spark, left, store, foreign_key="value", timestamps="millis")
    found = sorted(
        (row["key"], row["foreign_value"], row["valid_from"])
        for row in joined.toArrow().to_pylist()
    )
    wanted = sorted(
        (record.key, version.value, max(record.timestamp, version.timestamp))
        for record in records
        for version in logs.visible(MODEL)
        if version.key == record.value
        and (version.valid_to is None or version.valid_to > record.timestamp)
    )
    assert wanted
    assert found == wanted


def test_verify_root_and_vacuum(spark: SparkSession, store: Path) -> None:
    write_store(logs.log_frame(spark, LOG), store, mode="overwrite")
    verified = verify_root(store, spark=spark)
    assert (verified.findings, verified.counts.files > 0) == ([], True)
    gone = vacuum(store, grace_s=0, keep_versions=1, spark=spark)
    assert (gone.versions, bool(gone.files)) == ((1,), True)
    assert logs.history(spark, store) == logs.visible(MODEL)
    with pytest.raises(UnsupportedError, match="cannot call listener or progress"):
        verify_root(store, spark=spark, listener=lambda name, found: None)


def test_rescale(spark: SparkSession, store: Path) -> None:
    wanted = [(each.key, each.timestamp, each.value) for each in logs.visible(MODEL)]
    done = rescale(store, partitions=7, spark=spark)
    assert (done.before, done.partitions, done.path) == (logs.SHARDS, 7, str(store))
    newest = logs.history(spark, store, version=done.version)
    assert [(each.key, each.timestamp, each.value) for each in newest] == wanted
    assert {each.shard for each in newest} == {partition(each.key, 7) for each in newest}
    with pytest.raises(SpecError, match="already has 7 shards"):
        rescale(store, partitions=7, spark=spark)
    with pytest.raises(UnsupportedError, match="with a session of Spark Connect"):
        rescale(store, partitions=2, store="totals", spark=spark)


def test_stream_into(spark: SparkSession, root: Path, tmp_path: Path) -> None:
    source, checkpoint = tmp_path / "in", root.with_name("checkpoint")
    slices = slices_of(LOG, 3)
    add_epochs(source, slices[:2])
    query = run(epochs_of(spark, source), root, checkpoint, name="rates")
    assert query.name == "rates"
    for number in (1, 2):
        so_far = [record for records in slices[:number] for record in records]
        visible = logs.visible(logs.model_of(so_far))
        assert logs.history(spark, root, version=number) == visible
    add_epochs(source, slices[2:])
    run(epochs_of(spark, source), root, checkpoint)
    assert logs.history(spark, root) == logs.visible(MODEL)
    with pytest.raises(StateError, match="belongs to the stream"):
        run(epochs_of(spark, source), root, root.with_name("another"))
    with pytest.raises(UnsupportedError, match="stream_into cannot call emit"):
        run(epochs_of(spark, source), root, checkpoint, emit=lambda df, epoch: None)
    own, where = stores.key_value("own", value=Own()), root.with_name("own")
    run(epochs_of(spark, source), where, root.with_name("own-checkpoint"), spec=own)
    newest = {record.key: record.value for record in LOG}
    rows = read_store(spark, where, spec=own).toArrow().to_pylist()
    assert {row["key"]: row["value"] for row in rows} == {
        key: value for key, value in newest.items() if value is not None
    }


def test_map_state(spark: SparkSession, root: Path) -> None:
    frame = spark.createDataFrame([("a", 1), ("b", 2), ("a", 3)], "key string, amount bigint")
    for first in (0, 4):
        result = map_state(
            frame.coalesce(1), running_total, TOTALS, root=root, schema="key string, total bigint"
        )
        found = sorted((row.key, row.total) for row in result.collect())
        half = first // 2
        assert found == [("a", first + 1), ("a", first + 4), ("b", half + 2)]
    with pytest.raises(SpecError, match="partitions"):
        map_state(frame, running_total, TOTALS, root=root, schema="k string", partitions=9)


def test_map_state_of_a_stream(spark: SparkSession, root: Path, tmp_path: Path) -> None:
    source = tmp_path / "in"
    spark.createDataFrame([("a", 1), ("b", 2)], "key string, amount bigint").write.parquet(
        str(source)
    )
    stream = spark.readStream.schema("key string, amount bigint").parquet(str(source))
    for total in (1, 8):
        result = map_state(
            stream, running_total, TOTALS, root=root, schema="key string, total bigint"
        )
        query = (
            result.writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(tmp_path / "out"))
        )
        query.awaitTermination()
        rows = spark.read.parquet(str(tmp_path / "out")).collect()
        assert ("a", total) in [(row.key, row.total) for row in rows]
        spark.createDataFrame([("a", 7)], "key string, amount bigint").write.mode("append").parquet(
            str(source)
        )


def test_run_on_spark(spark: SparkSession, root: Path, tmp_path: Path) -> None:
    source, target = str(tmp_path / "in"), str(tmp_path / "out")
    for first in (0, 2):
        rows = [("a", str(first), first), ("b", str(first + 1), first + 1)]
        spark.createDataFrame(rows, "key string, value string, timestamp bigint").write.mode(
            "append"
        ).parquet(source)
        stream = spark.readStream.schema("key string, value string, timestamp bigint")
        query = run_on_spark(
            adding(),
            sources={"in": stream.parquet(source)},
            sinks={"out": lambda df, epoch: df.write.mode("append").parquet(target)},
            root=root,
            checkpoint=str(tmp_path / "checkpoint"),
            partitions=2,
            trigger={"availableNow": True},
        )
        query.awaitTermination()
    found = spark.read.parquet(target).selectExpr("string(key)", "string(value)").collect()
    assert sorted(map(tuple, found)) == [("a", "0"), ("a", "2"), ("b", "1"), ("b", "4")]


def test_with_partition_time(spark: SparkSession, root: Path) -> None:
    rows = [(0, 5, 0), (0, 9, 1), (0, 7, 2), (1, 3, 0)]
    frame = spark.createDataFrame(rows, "partition int, timestamp bigint, offset bigint")
    found = with_partition_time(frame, root=root).toArrow().to_pylist()
    times = {
        (row["partition"], row["offset"]): int.from_bytes(row["headers"][-1]["value"])
        for row in found
    }
    assert times == {(0, 0): 5, (0, 1): 9, (0, 2): 9, (1, 0): 3}


def test_read_streams_dir(spark: SparkSession, root: Path, tmp_path: Path) -> None:
    spec = stores.timestamped_key_value("counts", key=serdes.UTF8, value=serdes.INT64)
    for number in (0, 2):
        with open_state(tmp_path / "app" / f"0_{number}", engine="rocksdb") as state:
            state.open(spec).put(f"key-{number}", number, timestamp=number)
            state.commit()
    with pytest.warns(UserWarning, match="has no tasks of the store 'counts' for the partitions 1"):
        frame = read_streams_dir(spark, tmp_path / "app", spec, timestamps="millis")
    rows = frame.select("key", "value", "timestamp", "task").orderBy("key").collect()
    assert [tuple(row) for row in rows] == [("key-0", 0, 0, "0_0"), ("key-2", 2, 2, "0_2")]


def test_the_kafka_source(spark: SparkSession) -> None:
    with mock_cluster() as servers:
        topic: Callable[[], str] = topic_maker(servers)
        check_batch_read(spark, servers, topic())
