"""Checks and decisions of the driver before a join runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from kstore_core.errors import UnsupportedError
from kstore_core.spark.join.versions import Source
from kstore_core.spark.read.read_store import manifest_spec
from kstore_core.spark.root.root import Root
from kstore_core.spark.shards.frames import shard_column
from kstore_core.spark.shards.routing import route_to_shards
from kstore_core.spec import StoreSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["How", "OnExpired", "PartitionBy", "check_size", "resolvable", "route_rows", "source_at"]

How = Literal["left", "inner"]
OnExpired = Literal["null", "error"]
PartitionBy = Literal["key", "partition"]


def source_at(
    root: Root,
    spec: StoreSpec | None,
    version: int | None,
    *,
    headers: bool,
    broadcast_bytes: int,
    cache_bytes: int,
    follow: bool = False,
) -> Source:
    """The store of a join, by its manifest; the errors are those of :func:`temporal_join`."""
    from kstore_core.spark.shards.published import ShardReader

    check_size("broadcast_bytes", broadcast_bytes)
    check_size("cache_bytes", cache_bytes)
    manifest = root.load(version)
    spec = manifest_spec(manifest, spec, str(root))
    if not spec.format.versioned:
        raise UnsupportedError(
            f"the store {spec.name!r} has the format {spec.format.name!r}, which has no history; "
            "join the DataFrame of read_store with DataFrame.join"
        )
    return Source(
        ShardReader(root, spec, manifest.engine),
        manifest.shards,
        manifest.version,
        headers=headers and spec.format.headers,
        everywhere=manifest.bytes <= min(broadcast_bytes, cache_bytes),
        cache_bytes=cache_bytes,
        follow=follow,
    )


def check_size(name: str, given: Any, what: str = "bytes") -> None:
    """Refuse a size that is not an int, with a TypeError, or is negative, with a ValueError."""
    if isinstance(given, bool) or not isinstance(given, int):
        raise TypeError(f"{name}={given!r} is {type(given).__name__}, not int; pass whole {what}")
    if given < 0:
        raise ValueError(f"{name}={given} is negative; pass 0 or more")


def resolvable(names: Sequence[str]) -> tuple[str, ...]:
    """Names that Spark resolves: the given names, or else ``column0``, ``column1``, ….

    Spark takes a name with a dot for a field, and rejects a duplicate.
    """
    plain = len({name.lower() for name in names}) == len(names)
    if plain and not any(mark in name for name in names for mark in ".`"):
        return tuple(names)
    return tuple(f"column{place}" for place in range(len(names)))


def route_rows(df: DataFrame, source: Source, key: int, by: int | None = None) -> DataFrame:
    """Route rows to the tasks of their shards, unless every task reads all shards.

    Spark must resolve the names of ``df``; see `resolvable`. ``key`` is the position of the key's
    column, ``by`` the position of a column of shard numbers, used instead of the key.
    """
    from pyspark.sql import functions as F  # noqa: N812

    if source.everywhere:
        return df
    shards = len(source.shards)
    if by is None:
        shard = shard_column(F.col(df.columns[key]), source.reader.spec.key, shards)
    else:
        shard = F.col(df.columns[by]).cast("int")
    return route_to_shards(df, shard, shards)
