"""The rescale of a root: a new version with the same rows in another number of shards."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kstore_core.errors import SpecError
from kstore_core.maintenance.rescale.expiry import merged_stream_time
from kstore_core.spark.live.stream_binding import check_not_streamed
from kstore_core.spark.remote.layout import layout_of
from kstore_core.spark.rescale.building import BuildTask, Uploads
from kstore_core.spark.rescale.key_classes import KeyClass, parents_of
from kstore_core.spark.rescale.moving import move_rows
from kstore_core.spark.rescale.offsets import merged_offsets
from kstore_core.spark.rescale.reading import PublishedShards, RowsTask
from kstore_core.spark.root.manifest import Manifest, Shard
from kstore_core.spark.root.root import Root
from kstore_core.spark.runtime.engines import check_shared_engine
from kstore_core.spark.runtime.server import is_connect, on_server
from kstore_core.spark.write.job import WriteJob
from kstore_core.spec import StoredSpec
from kstore_core.stream_clock import START

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["new_shards", "rescale_versions"]


def rescale_versions(
    spark: SparkSession,
    root: str | os.PathLike[str],
    storage_options: Mapping[str, Any] | None,
    partitions: int,
) -> tuple[WriteJob, Manifest, Manifest]:
    """Publish a version with the rows of the newest version in another number of shards.

    Return the job, and the manifests of the old and the new version. The errors are those of
    :func:`kstore_core.spark.rescale`.
    """
    job, newest = on_server(spark, _planned, root, storage_options, partitions)
    stored = _stored(newest)
    old = PublishedShards(job.root, newest.shards, newest.engine)
    rows = RowsTask(old, stored, newest.partitions, partitions)
    shards = new_shards(newest.shards, partitions, stored.shape)
    build = BuildTask(Uploads(job.root, job.job), stored, job.engine, shards)
    manifest = None
    try:
        on_server(spark, job.begin)
        manifest = replace(job.manifest(move_rows(spark, rows, build)), spec=newest.spec)
        on_server(spark, job.publish_manifest, manifest)
        return job, newest, manifest
    except BaseException:
        if manifest is None or not is_connect(spark):
            on_server(spark, job.discard)
        # With Spark Connect, the publishing task may still run, so a vacuum must remove the files.
        raise


def new_shards(shards: tuple[Shard, ...], partitions: int, shape: str) -> tuple[Shard, ...]:
    """Return new shards without rows, but with the merged offsets and stream times of old shards.

    In a key-value store, the stream time of a new shard is the greatest stream time of its old
    shards. In other stores, it is the least of these times, because stream time determines which
    rows have expired.
    """
    before = len(shards)
    made = []
    for number in range(partitions):
        parents = {
            KeyClass(before, parent): shards[parent]
            for parent in parents_of(number, before, partitions)
        }
        offsets, ahead = merged_offsets(parents, KeyClass(partitions, number))
        times = [p.stream_time for p in parents.values() if p.stream_time != START]
        merged = merged_stream_time(shape, times)
        reached = START if merged is None else merged
        made.append(Shard(number, stream_time=reached, offsets=offsets, ahead=ahead))
    return tuple(made)


def _planned(
    root: str | os.PathLike[str], storage_options: Mapping[str, Any] | None, partitions: int
) -> tuple[WriteJob, Manifest]:
    at = Root.at(root, storage_options)
    newest = at.load()
    check_not_streamed(layout_of(at.storage))
    if newest.partitions == partitions:
        raise SpecError(
            f"version {newest.version} of {at} already has {partitions} shards; pass another "
            "number as partitions"
        )
    check_shared_engine(newest.engine)
    # The job may be pickled, but the serdes of a user need not support pickling.
    spec = replace(_stored(newest), key="bytes", value="bytes").spec()
    job = WriteJob(at, spec, newest.engine, partitions, "rescale", newest.version + 1)
    return job, newest


def _stored(manifest: Manifest) -> StoredSpec:
    return StoredSpec.parse(json.dumps(dict(manifest.spec)).encode())
