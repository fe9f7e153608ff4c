"""Functions by which the driver checks the arguments of a join and routes rows to shards."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from kstore_core.errors import UnsupportedError
from kstore_core.spark.join.versions import Source
from kstore_core.spark.root.manifest import manifest_spec
from kstore_core.spark.root.root import loaded
from kstore_core.spark.runtime.server import on_server
from kstore_core.spark.runtime.worker_errors import told
from kstore_core.spec import StoreSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["How", "OnExpired", "PartitionBy", "check_size", "resolvable", "route_rows", "source_at"]

How = Literal["left", "inner"]
OnExpired = Literal["null", "error"]
PartitionBy = Literal["key", "partition"]


def source_at(
    spark: SparkSession,
    root: str | os.PathLike[str],
    spec: StoreSpec | None,
    version: int | None,
    *,
    headers: bool,
    broadcast_bytes: int,
    cache_bytes: int,
    follow: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> Source:
    """Load the manifest of the store to join, and return the source that the tasks receive.

    The arguments and errors are those of :func:`temporal_join`.
    """
    from kstore_core.spark.shards.published import ShardReader

    check_size("broadcast_bytes", broadcast_bytes)
    check_size("cache_bytes", cache_bytes)
    at, manifest = on_server(spark, loaded, root, storage_options, version)
    spec = manifest_spec(manifest, spec, str(at))
    if not spec.format.versioned:
        raise UnsupportedError(
            f"the store {spec.name!r} has the format {spec.format.name!r}, which has no history, "
            "but this join needs a versioned store. Read the store with read_store, and join the "
            "result by Spark's DataFrame.join"
        )
    return Source(
        ShardReader(at, spec, manifest.engine),
        manifest.shards,
        manifest.version,
        headers=headers and spec.format.headers,
        everywhere=manifest.bytes <= min(broadcast_bytes, cache_bytes),
        cache_bytes=cache_bytes,
        follow=follow,
    )


def check_size(name: str, given: Any, what: str = "bytes") -> None:
    """Raise a TypeError if an argument is not an int, and a ValueError if the argument is negative.

    ``name`` is the name of the argument, ``given`` its value, and ``what`` its unit.
    """
    if isinstance(given, bool) or not isinstance(given, int):
        raise TypeError(f"{name}={given!r} is {type(given).__name__}, not int; pass whole {what}")
    if given < 0:
        raise ValueError(f"{name}={given} is negative; pass 0 or more")


def resolvable(names: Sequence[str]) -> tuple[str, ...]:
    """Return ``names`` if Spark can resolve all these column names.

    If Spark cannot resolve them, return ``column0``, ``column1``, … Spark cannot resolve duplicate
    names, and interprets a dot in a name as the access to a field of a struct.
    """
    plain = len({name.lower() for name in names}) == len(names)
    if plain and not any(mark in name for name in names for mark in ".`"):
        return tuple(names)
    return tuple(f"column{place}" for place in range(len(names)))


def route_rows(df: DataFrame, source: Source, key: int, by: int | None = None) -> DataFrame:
    """Route each row of ``df`` to the task of its shard, if each task reads one shard.

    The rows of the result are packed; see :mod:`kstore_core.spark.shards.packing`.

    Spark must be able to resolve the column names of ``df``; see `resolvable`. ``key`` is the
    position of the column of keys. ``by`` is the position of a column with the number of each row's
    shard; if ``by`` is None, the shard is computed from the key.
    """
    from kstore_core.spark.shards.packing import Packing

    if source.everywhere:
        return df
    shards = len(source.shards)
    packing = Packing(shards, source.reader.spec.key, key, by)
    packed = df.mapInArrow(told(packing.pack), "shard int, rows binary")
    return packed.repartitionById(shards, "shard")
