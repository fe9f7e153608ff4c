"""The store of a join: versions cached by the worker, or looked up in the shard."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from kstore_core.errors import StateError
from kstore_core.spark.root.manifest import Manifest, Shard
from kstore_core.spark.root.root import Root
from kstore_core.spec import StoreSpec

if TYPE_CHECKING:
    import pyarrow as pa

    from kstore_core.spark.join.in_memory import InMemoryVersions, KeysAndTimes
    from kstore_core.spark.shards.published import ShardReader

__all__ = ["ShardLookup", "Source"]

_MOST_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Source:
    """The store of a join, as its tasks receive it."""

    reader: ShardReader
    shards: tuple[Shard, ...]  # all, by number
    version: int  # of the shards
    headers: bool  # add headers to the result
    everywhere: bool  # every task reads all shards; else rows are routed to their shards
    cache_bytes: int  # the limit of a worker's cache
    follow: bool = False  # look for a newer version at the start of each task

    @contextmanager
    def open(self, shard: int | None) -> Iterator[InMemoryVersions | ShardLookup]:
        """The versions of a shard, or of all shards for None, until the task ends."""
        from kstore_core.spark.join.histories import load_versions
        from kstore_core.spark.join.in_memory import CACHE

        every, reader = self.shards, self.reader
        if self.follow:
            every, reader = _newest(self)
        shards = every if shard is None else (every[shard],)
        versions = CACHE.get(
            (
                str(reader.root),
                tuple(each.path for each in shards),
                reader.spec.format.name,
                reader.spec.value.name,
                reader.spec.history_retention_ms,
                self.cache_bytes,
            ),
            lambda: load_versions(reader, shards, max_bytes=self.cache_bytes),
            max_bytes=self.cache_bytes,
        )
        if versions is not None:
            yield versions
            return
        with ExitStack() as opened:
            yield ShardLookup(
                tuple(
                    None if each.path is None else opened.enter_context(reader.open(each))
                    for each in shards
                ),
                reader.spec,
            )


@dataclass(frozen=True, slots=True)
class ShardLookup:
    """Open shards that exceed the cache; the keys of many rows are looked up together."""

    stores: Sequence[Any]  # the open store of each shard; None for an empty shard
    spec: StoreSpec

    rows_at_once: ClassVar[int] = 100_000
    """The number of rows to gather before a lookup."""

    def for_rows(
        self, batch: pa.RecordBatch, keys_and_times: KeysAndTimes
    ) -> InMemoryVersions | None:
        """The versions that rows may match; None if those of several rows need too much memory."""
        import numpy as np
        import pyarrow as pa

        from kstore_core.spark.columns.shard_ids import shards_of
        from kstore_core.spark.join.histories import versions_of_keys
        from kstore_core.spark.join.in_memory import NEVER, InMemoryVersions

        rows = pa.table(list(keys_and_times(batch)), names=["key", "time"]).drop_null()
        distinct = rows.group_by("key").aggregate([("time", "min")]).sort_by("key")
        keys, earliest = (distinct[name].combine_chunks() for name in ("key", "time_min"))
        earliest = np.asarray(earliest, np.int64)
        where = shards_of(keys, len(self.stores))
        tables: list[pa.Table] = []
        size = 0
        for number, store in enumerate(self.stores):
            here = np.flatnonzero(where == number)
            if store is not None and len(here):
                some = keys.take(pa.array(here))
                for table in versions_of_keys(store, some, earliest[here]):
                    tables.append(table)
                    size += table.nbytes
                    if size > _MOST_BYTES and batch.num_rows > 1:
                        return None
        horizons = [NEVER if store is None else store.clock.horizon for store in self.stores]
        return InMemoryVersions.of(self.spec, tables, horizons)


_SEEN: dict[str, Manifest] = {}
"""The newest manifest of each followed root."""


def _newest(source: Source) -> tuple[tuple[Shard, ...], ShardReader]:
    """Return the shards of the newest version, and their reader."""
    from dataclasses import replace

    root: Root = source.reader.root
    newest = root.versions()[-1:]
    if not newest or newest[0] <= source.version:
        return source.shards, source.reader
    manifest = _SEEN.get(str(root))
    if manifest is None or manifest.version != newest[0]:
        manifest = _SEEN[str(root)] = root.load(newest[0])
    described = source.reader.spec.describe()
    there = {**manifest.spec, "partitions": manifest.partitions}
    here = {**described, "partitions": len(source.shards)}
    for name in ("name", "shape", "format", "key", "value", "partitions"):
        if there.get(name) != here.get(name):
            raise StateError(
                f"{root} has the new version {manifest.version}, whose {name} is "
                f"{there.get(name)!r}, not {here.get(name)!r} as in version {source.version}; "
                "start the query again"
            )
    return manifest.shards, replace(source.reader, engine=manifest.engine)
