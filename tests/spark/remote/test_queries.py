"""Streams of Spark itself into roots on object stores."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kstore_core.errors import SpecError, StateError
from kstore_core.spark import spec_json, stream_into, write_store
from kstore_core.spark.live.stream_binding import StreamBinding
from kstore_core.spark.remote.layout import layout_of
from kstore_core.spark.root.inbox import INBOX
from tests.spark.stream.shard_epochs import Streamed, shards_are
from tests.spark.support.logs import SHARDS, SPEC, log_frame, make_log
from tests.spark.support.object_store import Bucket
from tests.spark.support.streams import (
    AVAILABLE,
    add_epochs,
    epochs_of,
    forget_last_epoch,
    run,
    slices_of,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def test_a_stream_goes_to_an_object_store(
    spark: SparkSession, bucket: Bucket, tmp_path: Path
) -> None:
    log = make_log(1, 300, SHARDS)
    slices, source = slices_of(log, 3), tmp_path / "in"
    add_epochs(source, slices[:2])
    seen: list[tuple[int, list[Any]]] = []

    def emit(changes: DataFrame, epoch: int) -> None:
        rows = [(bytes(row.key), row.partition) for row in changes.collect()]
        seen.append((epoch, sorted(rows)))

    where: Any = bucket.address()
    options: Any = {"storage_options": bucket.options, "emit": emit}
    run(epochs_of(spark, source), where, tmp_path / "checkpoint", **options)
    assert forget_last_epoch(tmp_path / "checkpoint") == 1
    add_epochs(source, slices[2:])
    run(epochs_of(spark, source), where, tmp_path / "checkpoint", **options)
    assert [epoch for epoch, _ in seen] == [0, 1, 1, 2]
    assert seen[1] == seen[2]
    assert bucket.root().versions() == [1, 2, 3]
    assert shards_are(Streamed(bucket.root(), SPEC, query=query_of(bucket)), log)
    with pytest.raises(StateError, match="belongs to the stream of the checkpoint"):
        write_store(
            log_frame(spark, log),
            where,
            SPEC,
            partitions=SHARDS,
            storage_options=bucket.options,
        )
    with pytest.raises(SpecError, match="compact_every=0 is not an int of 1 or more"):
        stream_into(epochs_of(spark, source), where, checkpoint=tmp_path, compact_every=0)


def test_the_sink_goes_to_an_object_store(
    spark: SparkSession, bucket: Bucket, tmp_path: Path
) -> None:
    log = make_log(2, 200, SHARDS)
    slices, source = slices_of(log, 2), tmp_path / "in"
    given = {"spec": spec_json(SPEC), "partitions": str(SHARDS), "engine": "lmdb"}
    given |= {f"storage.{name}": value for name, value in bucket.options.items()}
    given["checkpointLocation"] = str(tmp_path / "checkpoint")
    for number in (1, 2):
        add_epochs(source, slices[number - 1 : number])
        writer = epochs_of(spark, source).repartition(2).writeStream.format("kstore")
        writer = writer.options(**given).trigger(**AVAILABLE)
        query = writer.start(bucket.address())
        query.awaitTermination()
        assert bucket.root().versions() == [*range(1, number + 1)]
        assert bucket.root().storage.files(INBOX) == []
    assert shards_are(Streamed(bucket.root(), SPEC, "lmdb", query=query.id), log)


def query_of(bucket: Bucket) -> str:
    bound = StreamBinding.of(layout_of(bucket.root().storage))
    assert bound is not None
    return bound.query
