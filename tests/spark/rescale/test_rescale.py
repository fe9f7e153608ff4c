"""`rescale` of versions, with Spark: a new version, its readers, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest

from kstore_core import serdes, stores
from kstore_core.errors import CommitConflictError, CorruptionError, SpecError, StateError
from kstore_core.spark import (
    Rescaled,
    read_changes,
    read_store,
    rescale,
    stream_into,
    vacuum,
    verify_root,
    write_store,
)
from kstore_core.spark.rescale.moving import move_rows
from kstore_core.spark.root.root import Root
from tests.spark.rescale import runs
from tests.spark.rescale.runs import FOR_EVER, SHAPES, model, random_log, read, table_of, write
from tests.spark.support.by_hand import publish
from tests.spark.support.cluster_work import LETHAL, LethalRoot
from tests.spark.support.logs import SHARDS, SPEC, log_frame, make_log
from tests.spark.support.object_store import Bucket

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PRICES = stores.timestamped_key_value("prices", key=serdes.UTF8, value=serdes.INT64)


def rows(spark: SparkSession, root: Any, **options: Any) -> list[Any]:
    df = read_store(spark, root, timestamps="millis", **options).drop("partition")
    return sorted(map(tuple, df.collect()), key=repr)


@pytest.mark.parametrize("name", ["headers", "versioned_headers", "ordered", "session_headers"])
def test_a_version_in_other_shards(spark: SparkSession, root: Path, name: str) -> None:
    spec = SHAPES[name](FOR_EVER)
    log = random_log(spec, 3, 400, 3)
    frame = spark.createDataFrame(table_of(spec, log))
    write_store(frame, root, spec, partitions=3, partition_by="key")
    for version, shards in ((2, 6), (3, 4)):
        done = rescale(root, partitions=shards)
        assert done == Rescaled(
            "s", (3, 6)[version - 2], shards, done.rows, version, str(Root.at(root))
        )
        assert done.rows == sum(s.rows for s in Root.at(root).load().shards) > 10
        assert read(Root.at(root), spec) == model(spec, log)
    assert read(Root.at(root), spec, version=1) == model(spec, log)
    again = write_store(frame, root, partition_by="key")
    assert (sum(s.replayed for s in again.shards), again.partitions) == (len(log), 4)
    assert verify_root(root).exit_code == 0
    vacuum(root, grace_s=0, keep_versions=1)
    assert read(Root.at(root), spec) == model(spec, log)


def test_every_reader_finds_the_keys(spark: SparkSession, root: Path) -> None:
    log = make_log(4, 300, SHARDS)
    write_store(log_frame(spark, log), root, SPEC, partitions=SHARDS)
    wanted = rows(spark, root, history=True)
    rescale(root, partitions=7, spark=spark)
    assert rows(spark, root, history=True) == wanted
    for key in {record.key for record in log}:
        assert rows(spark, root, key=key) == rows(spark, root, key=key, version=1)
    with pytest.raises(Exception, match="3 shards in version 1 and 7 in version 2"):
        read_changes(spark, root, 1)
    partitions = {row.partition for row in read_store(spark, root).collect()}
    assert partitions <= set(range(7))
    assert len(partitions) > SHARDS


def test_a_write_needs_the_new_number(spark: SparkSession, root: Path) -> None:
    log = make_log(4, 60, SHARDS)
    write_store(log_frame(spark, log), root, SPEC, partitions=SHARDS)
    rescale(root, partitions=2)
    with pytest.raises(SpecError, match="partitions is 2 in the root and 3 in this write"):
        write_store(log_frame(spark, log), root, SPEC, partitions=SHARDS, partition_by="key")
    with pytest.raises(SpecError, match="to select shards by the keys"):
        write_store(log_frame(spark, log), root)


def test_a_serde_of_the_user_stays(spark: SparkSession, root: Path) -> None:
    class Mine:
        name = "mine"
        arrow_type = serdes.UTF8.arrow_type
        serialize, deserialize = serdes.UTF8.serialize, serdes.UTF8.deserialize

    spec = stores.key_value("s", key=serdes.UTF8, value=Mine())
    publish(root, spec, lambda store, number: store.put(KEYS[number], "v"), partitions=2)
    before = Root.at(root).load()
    done = rescale(root, partitions=5)
    after = Root.at(root).load()
    assert (done.rows, after.spec) == (2, before.spec)
    assert after.spec["value"] == "mine"


KEYS = {0: "k3", 1: "k1"}
"""A key for each of two shards."""


def test_an_object_store(spark: SparkSession, bucket: Bucket) -> None:
    root, options = bucket.address("rescaled"), bucket.options
    log = make_log(4, 60, SHARDS)
    for some in (log[:30], log):  # The second version names files of the first one.
        write_store(log_frame(spark, some), root, SPEC, partitions=SHARDS, storage_options=options)
    wanted = rows(spark, root, history=True, storage_options=options)
    done = rescale(root, partitions=2, storage_options=options)
    assert (done.version, done.path) == (3, str(Root.at(root, options)))
    assert rows(spark, root, history=True, storage_options=options) == wanted


@pytest.mark.parametrize("partitions", [0, -1, True, 2.0, "4", 2**31, None])
def test_numbers_of_shards_that_are_refused(root: Path, partitions: Any) -> None:
    with pytest.raises(SpecError, match=r"partitions=.* is not a valid number of partitions"):
        rescale(root, partitions=partitions)


def test_roots_that_are_refused(spark: SparkSession, root: Path, tmp_path: Path) -> None:
    with pytest.raises(StateError, match="has no store: there is no manifest"):
        rescale(root, partitions=3)
    publish(root, PRICES, lambda store, number: store.put(KEYS[number], 1, timestamp=1))
    with pytest.raises(SpecError, match=r"version 1 of .* already has 2 shards; pass another"):
        rescale(root, partitions=2)
    with pytest.raises(StateError, match=r"no state of map_state for a store 'x'; .* none"):
        rescale(root, partitions=3, store="x")
    source = tmp_path / "in"
    source.mkdir()
    log = spark.readStream.schema("key string, value long, timestamp long").json(str(source))
    query = stream_into(
        log, root, checkpoint=tmp_path / "checkpoint", trigger={"availableNow": True}
    )
    query.awaitTermination()
    with pytest.raises(StateError, match="belongs to the stream of the checkpoint"):
        rescale(root, partitions=3)
    assert Root.at(root).versions() == [1]


@pytest.mark.spoils_root
def test_a_shard_that_is_damaged_is_named(spark: SparkSession, root: Path) -> None:
    made = publish(root, PRICES, lambda store, number: store.put(KEYS[number], 1, timestamp=1))
    shard = made.shards[1]
    (root / shard.place_of(shard.files[0])).unlink()
    with pytest.raises(CorruptionError, match=r"shard 1: .* is missing"):
        rescale(root, partitions=3)
    assert Root.at(root).versions() == [1]

    assert len(list((root / "attempts").iterdir())) == 1


def test_a_killed_worker_leaves_nothing(spark: SparkSession, root: Path) -> None:
    log = make_log(4, 60, SHARDS)
    write_store(log_frame(spark, log), root, SPEC, partitions=SHARDS)
    wanted, before = rows(spark, root, history=True), sorted(root.rglob("*"))
    for how in ("worker", "for ever"):
        lethal = root.with_name(LETHAL)
        lethal.write_text(how)
        with (
            mock.patch.object(Root, "at", LethalRoot.at),
            pytest.raises(Exception, match=r"crashed|exited unexpectedly|the disk is gone"),
        ):
            rescale(root, partitions=4)
        assert lethal.exists() == (how == "for ever")
        assert sorted(root.rglob("*")) == before
    assert rescale(root, partitions=4).version == 2
    assert rows(spark, root, history=True) == wanted


def test_keys_of_another_partitioner_are_refused(spark: SparkSession, root: Path) -> None:
    publish(root, PRICES, lambda store, number: store.put(KEYS[1 - number], 1, timestamp=1))
    with pytest.raises(SpecError, match=r"is in shard 0, but Kafka's murmur2 .* shard 1 of 2"):
        rescale(root, partitions=3)
    assert Root.at(root).versions() == [1]


def test_another_writer_wins(spark: SparkSession, root: Path) -> None:
    fill = {0: lambda store, number: store.put(KEYS[number], 1, timestamp=1)}
    publish(root, PRICES, fill[0])

    def slow(*given: Any) -> Any:
        made = move_rows(*given)
        publish(root, PRICES, fill[0])
        return made

    with (
        mock.patch("kstore_core.spark.rescale.versions.move_rows", slow),
        pytest.raises(CommitConflictError, match="Run the job again"),
    ):
        rescale(root, partitions=3)
    assert [Root.at(root).load(version).partitions for version in (1, 2)] == [2, 2]


def test_a_stream_goes_on_with_a_new_checkpoint_only(
    spark: SparkSession, root: Path, tmp_path: Path
) -> None:
    """After the rescale, the offsets of the version say what the stream skips."""
    source = tmp_path / "in"
    source.mkdir()
    kinds = "topic string, partition int, offset long, key string, value long, timestamp long"

    def stream(checkpoint: str) -> None:
        log = spark.readStream.schema(kinds).json(str(source))
        stream_into(
            log,
            root,
            checkpoint=tmp_path / checkpoint,
            spec=PRICES,
            partitions=None if (root / "_kstore").is_dir() else 3,
            partition_by="key",
            trigger={"availableNow": True},
        ).awaitTermination()

    def arrive(begin: int, end: int) -> None:
        lines = [
            {"topic": "t", "partition": 0, "offset": n, "key": f"k{n % 7}", "value": n}
            for n in range(begin, end)
        ]
        text = "\n".join(json.dumps({**line, "timestamp": line["value"]}) for line in lines)
        (source / f"{begin}.json").write_text(text)

    arrive(0, 40)
    stream("one")
    (root / "live").rename(tmp_path / "live")
    rescale(root, partitions=2)
    arrive(40, 60)
    with pytest.raises(Exception, match="start the stream with a new checkpoint"):
        stream("one")
    (root / "live").rename(tmp_path / "live-2")
    stream("two")
    newest = Root.at(root).load()
    assert sum(shard.replayed for shard in newest.shards) == 40
    assert sum(shard.records for shard in newest.shards) == 60
    wanted = {f"k{n % 7}": n for n in range(60)}
    found = {row.key: row.value for row in read_store(spark, root).collect()}
    assert found == wanted


def test_a_shard_without_rows_keeps_its_time_and_offsets(root: Path) -> None:
    """The record of its only key was deleted; a late record of that shard stays late."""
    spec = stores.window("s", 400, 50, segment_interval_ms=60_000)
    at = Root.at(root)
    log = random_log(spec, 1, 300, 1)
    only = [{**r, "key": b"k1", "value": None} for r in log]
    write(at, spec, only, 1, "lmdb")
    for shards in (3, 4):
        made = runs.rescale(at, spec, shards)
    assert all(shard.path is None for shard in made.shards)
    time = max(r["start"] for r in log)
    assert {shard.stream_time for shard in made.shards} == {time}
    assert all(shard.offsets == made.shards[0].offsets for shard in made.shards)
    late = {**only[0], "value": b"late", "start": 0, "offset": 10**6}
    live = {**only[0], "value": b"live", "start": time // 50 * 50, "offset": 10**6 + 1}
    assert sum(s.replayed for s in write(at, spec, only, 4, "lmdb").shards) == len(only)
    write(at, spec, [late], 4, "lmdb")
    assert read(at, spec) == []
    write(at, spec, [live], 4, "lmdb")
    assert len(read(at, spec)) == 1
