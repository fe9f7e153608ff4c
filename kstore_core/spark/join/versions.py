"""Where the tasks of a join find versions: in a snapshot that the worker keeps, or in the shard."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kstore_core.errors import StateError
from kstore_core.spark.root.manifest import Manifest, Shard
from kstore_core.spark.root.root import Root
from kstore_core.spec import StoreSpec

if TYPE_CHECKING:
    import pyarrow as pa

    from kstore_core.spark.join.in_memory import Snapshot
    from kstore_core.spark.shards.published import ShardReader

__all__ = ["Asked", "Kept", "Probes", "Source"]

Asked = Callable[["pa.RecordBatch"], tuple["pa.Array", "pa.Array"]]
"""Gives the serialised keys of rows, and the times (ms) from which on they ask for versions."""

_PROBED_ROWS = 100_000
_PROBED_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Source:
    """The store that a join looks into, as its tasks know it.

    Attributes
    ----------
    reader : ShardReader
    shards : tuple of Shard
        All of them, by number.
    version : int
        The one that ``shards`` are of.
    headers : bool
        Whether headers are wanted.
    everywhere : bool
        Whether every task has all shards at hand, or the one that its rows were brought to.
    cache_bytes : int
        What a worker may keep in memory.
    follow : bool
        Whether a task looks for a newer version first.
    """

    reader: ShardReader
    shards: tuple[Shard, ...]
    version: int
    headers: bool
    everywhere: bool
    cache_bytes: int
    follow: bool = False

    @contextmanager
    def open(self, shard: int | None) -> Iterator[Kept | Probes]:
        """The versions of a shard, of all shards for None, for as long as a task takes."""
        from kstore_core.spark.join.histories import snapshot_of
        from kstore_core.spark.join.in_memory import CACHE

        every, reader = self.shards, self.reader
        if self.follow:
            every, reader = _newest(self)
        shards = every if shard is None else (every[shard],)
        CACHE.shrink(self.cache_bytes)
        snapshot = CACHE.get(
            (
                str(reader.root),
                tuple(each.path for each in shards),
                reader.spec.format.name,
                reader.spec.value.name,
                reader.spec.history_retention_ms,
                self.cache_bytes,
            ),
            lambda: snapshot_of(reader, shards, max_bytes=self.cache_bytes),
        )
        if snapshot is not None:
            yield Kept(snapshot)
            return
        with ExitStack() as opened:
            yield Probes(
                tuple(
                    None if each.path is None else opened.enter_context(reader.open(each))
                    for each in shards
                ),
                reader.spec,
            )


@dataclass(frozen=True, slots=True)
class Kept:
    """A snapshot: rows are looked up as they come."""

    snapshot: Snapshot
    rows: int = 1

    def of(self, batch: pa.RecordBatch, asked: Asked) -> Snapshot | None:
        """What has the versions that these rows may ask for."""
        return self.snapshot


@dataclass(frozen=True, slots=True)
class Probes:
    """Open shards, too big to be kept: many rows' keys are looked up in them together.

    Attributes
    ----------
    stores : tuple
        An open store for each shard, None for one that nothing was written to.
    spec : StoreSpec
    rows : int
        How many rows to gather before they are looked up.
    """

    stores: Sequence[Any]
    spec: StoreSpec
    rows: int = _PROBED_ROWS

    def of(self, batch: pa.RecordBatch, asked: Asked) -> Snapshot | None:
        """What has the versions that these rows may ask for.

        None where that is more than should be in memory at once, and there are several rows.
        """
        import numpy as np
        import pyarrow as pa

        from kstore_core.spark.columns.shard_ids import shards_of
        from kstore_core.spark.join.histories import versions_of_keys
        from kstore_core.spark.join.in_memory import NEVER, Snapshot

        rows = pa.table(list(asked(batch)), names=["key", "time"]).drop_null()
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
                    if size > _PROBED_BYTES and batch.num_rows > 1:
                        return None
        horizons = [NEVER if store is None else store.clock.horizon for store in self.stores]
        return Snapshot.of(self.spec, tables, horizons)


_SEEN: dict[str, Manifest] = {}
"""The newest manifest of each root that this process follows."""


def _newest(source: Source) -> tuple[tuple[Shard, ...], ShardReader]:
    """The shards of the newest version, and who reads them.

    Raises
    ------
    StateError
        It has another number of shards, or is a store of another format.
    """
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
                f"{root} went from version {source.version} to {manifest.version}, whose {name} is "
                f"{there.get(name)!r} instead of {here.get(name)!r}; start the query again"
            )
    return manifest.shards, replace(source.reader, engine=manifest.engine)
