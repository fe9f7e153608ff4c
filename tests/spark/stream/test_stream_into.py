"""Streams into stores: what a batch would write, in versions of whole epochs."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from kstore_core import serdes, stores
from kstore_core.errors import SpecError, StateError, UnsupportedError
from kstore_core.spark import read_store, stream_into, write_store
from kstore_core.spark.root.root import Root
from tests.spark.support import logs
from tests.spark.support.streams import add_epochs, epochs_of, forget_last_epoch, run, slices_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


PLAIN = stores.key_value("plain")


class Seen:
    """Keeps what a stream emits."""

    def __init__(self) -> None:
        self.epochs: list[int] = []
        self.tables: list[pa.Table] = []
        self.versions: list[int | None] = []

    def __call__(self, changes: DataFrame, epoch: int) -> None:
        self.epochs.append(epoch)
        by_key = [("partition", "ascending"), ("key", "ascending")]
        self.tables.append(changes.toArrow().sort_by(by_key))


def stream_of(
    spark: SparkSession, source: Path, seed: int, epochs: int
) -> tuple[list[logs.Record], DataFrame]:
    """A log of 60 records, and the stream of its epochs."""
    log = logs.make_log(seed, 60, logs.SHARDS)
    add_epochs(source, slices_of(log, epochs))
    return log, epochs_of(spark, source)


def test_epochs_become_versions_and_are_what_a_batch_writes(
    spark: SparkSession, root: Path, tmp_path: Path
) -> None:
    log = logs.make_log(1, 600, logs.SHARDS)
    source, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    slices = slices_of(log, 3)
    add_epochs(source, slices[:2])
    seen = Seen()
    query = run(epochs_of(spark, source), root, checkpoint, emit=seen, name="rates")
    assert query.name == "rates"
    for number in (1, 2):
        so_far = [record for records in slices[:number] for record in records]
        model = logs.model_of(so_far)
        assert logs.history(spark, root, version=number) == logs.visible(model)
        manifest = Root.at(root).load(number)
        assert manifest.job == f"stream-{query.id}-{number - 1}"
        assert (manifest.records, manifest.late) == (len(so_far), model.late)
    # Spark does not know that the last epoch was done, and gives it again before the next one.
    assert forget_last_epoch(checkpoint) == 1
    add_epochs(source, slices[2:])
    run(epochs_of(spark, source), root, checkpoint, emit=seen)
    assert logs.history(spark, root) == logs.visible(logs.model_of(log))
    assert Root.at(root).versions() == [1, 2, 3]
    assert seen.epochs == [0, 1, 1, 2]
    assert seen.tables[2] == seen.tables[1]
    model = logs.model_of(log)
    latest = {v.key: v for v in model.history() if v.valid_to is None}
    named = sorted({record.key for record in slices[2]})
    rows = sorted(seen.tables[3].to_pylist(), key=lambda row: row["key"])
    assert [row["key"] for row in rows] == named
    for row in rows:
        there = latest.get(row["key"])
        assert row["value"] == (there and there.value)
        assert (row["timestamp"] is None) == (there is None)


def test_a_stream_goes_on_from_what_a_batch_has_written(
    spark: SparkSession, root: Path, tmp_path: Path
) -> None:
    log = logs.make_log(2, 400, logs.SHARDS)
    manifest = write_store(
        logs.log_frame(spark, log[:200]), root, logs.SPEC, partitions=logs.SHARDS
    )
    add_epochs(tmp_path / "in", slices_of(log[100:], 2))  # and gives some of it again
    run(
        epochs_of(spark, tmp_path / "in"),
        root,
        tmp_path / "checkpoint",
        spec=None,
        partitions=None,
        publish_every=2,
    )
    assert Root.at(root).versions() == [1, 2]
    assert logs.history(spark, root) == logs.visible(logs.model_of(log))
    assert logs.history(spark, root, version=1) == logs.visible(logs.model_of(log[:200]))
    newest = Root.at(root).load()
    assert sum(shard.replayed for shard in newest.shards) == 100
    assert manifest == Root.at(root).load(1)
    with pytest.raises(StateError, match="belongs to the stream of the checkpoint"):
        write_store(logs.log_frame(spark, log), root, logs.SPEC, partitions=logs.SHARDS)


def test_keys_are_placed_and_values_typed(spark: SparkSession, root: Path, tmp_path: Path) -> None:
    spec = stores.timestamped_key_value("texts", key=serdes.UTF8, value=serdes.UTF8)
    log = logs.make_log(3, 100, logs.SHARDS)
    add_epochs(tmp_path / "in", slices_of(log, 1))
    texts = epochs_of(spark, tmp_path / "in").selectExpr(
        "cast(key as string) key", "cast(value as string) value", "timestamp"
    )
    seen = Seen()
    run(texts, root, tmp_path / "checkpoint", spec=spec, engine="lmdb", emit=seen)
    last = {record.key: record for record in log}
    wanted = {
        key.decode(): record.value.decode()
        for key, record in last.items()
        if record.value is not None
    }
    rows = read_store(spark, root).toArrow().to_pylist()
    assert {row["key"]: row["value"] for row in rows} == wanted
    emitted = seen.tables[0].to_pylist()
    assert {row["key"]: row["value"] for row in emitted if row["value"] is not None} == wanted
    assert len(emitted) == len(last)


def test_one_stream_at_a_time(spark: SparkSession, root: Path, tmp_path: Path) -> None:
    _, df = stream_of(spark, tmp_path / "in", 4, 1)
    first = stream_into(
        df, root, checkpoint=tmp_path / "checkpoint", spec=logs.SPEC, partitions=logs.SHARDS
    )
    try:
        first.processAllAvailable()
        with pytest.raises(StateError, match=r"another stream writes to .*"):
            run(df, root, tmp_path / "checkpoint")
    finally:
        first.stop()
    with pytest.raises(StateError, match=r"belongs to the stream of the checkpoint .*, not of"):
        run(df, root, tmp_path / "other")
    with pytest.raises(SpecError, match="partitions is 3 in the root and 4 in this write"):
        run(df, root, tmp_path / "checkpoint", partitions=4)
    shutil.rmtree(tmp_path / "checkpoint")
    with pytest.raises(StateError, match=r"but this stream is .* of the checkpoint"):
        run(df, root, tmp_path / "checkpoint")
    assert Root.at(root).versions() == [1]


def test_what_cannot_work_is_refused_before_the_query_starts(
    spark: SparkSession, root: Path, tmp_path: Path
) -> None:
    log, df = stream_of(spark, tmp_path / "in", 4, 1)
    refused: list[tuple[Any, type[Exception], str, dict[str, Any]]] = [
        (
            logs.log_frame(spark, log),
            SpecError,
            "needs a streaming DataFrame; pass the batch to",
            {},
        ),
        (df.drop("value"), SpecError, "'value' is missing", {}),
        (df.selectExpr("*", "1 more"), SpecError, "'more' is unknown", {}),
        (df, SpecError, "publish_every=0", {"publish_every": 0}),
        (df, SpecError, "pass spec= and partitions=", {"spec": None, "partitions": None}),
        (df, SpecError, "is not a valid number of partitions", {"partitions": 0}),
        (df, SpecError, "has no stream time", {"spec": PLAIN, "partition_time": True}),
        (df, UnsupportedError, "'memory' keeps its data in the process", {"engine": "memory"}),
        (df, UnsupportedError, "webdav: is not supported", {"root": "webdav://host/store"}),
        (df, SpecError, "compact_every=0 is not an int", {"compact_every": 0}),
        (df, SpecError, "must be 'key' or 'partition'", {"partition_by": "hash"}),
        (
            df.drop("partition"),
            SpecError,
            "a column 'partition', which",
            {"partition_by": "partition"},
        ),
    ]
    for frame, error, text, options in refused:
        at = options.pop("root", root)
        with pytest.raises(error, match=text):
            run(frame, at, tmp_path / "checkpoint", **options)
    assert not root.exists()
    assert not (tmp_path / "checkpoint").exists()


def test_an_epoch_with_a_fault_stops_the_query_and_shows_nothing(
    spark: SparkSession, root: Path, tmp_path: Path
) -> None:
    from pyspark.errors import StreamingQueryException

    log, df = stream_of(spark, tmp_path / "in", 5, 2)
    first = sum(record.partition == 0 for record in slices_of(log, 2)[0])
    nameless = df.selectExpr(
        f"if(partition = 0 and offset > {first}, null, key) key", *df.columns[1:]
    )
    with pytest.raises(StreamingQueryException, match=r"shard 0: .* records have no key"):
        run(nameless, root, tmp_path / "checkpoint")
    assert Root.at(root).versions() == [1]
    run(df, root, tmp_path / "checkpoint")  # mended
    assert logs.history(spark, root) == logs.visible(logs.model_of(log))
    assert Root.at(root).versions() == [1, 2]
