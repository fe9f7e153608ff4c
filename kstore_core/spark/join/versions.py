"""The store that a join reads.

If the versions of the store fit into the cache of a worker, the worker caches the versions.
If they do not fit, the worker looks up versions in open shards.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
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
    """The description of the store to join, which the tasks receive.

    Attributes
    ----------
    reader : ShardReader
        The reader that opens the shards.
    shards : tuple of Shard
        All shards in the order of their numbers.
    version : int
        The version of the store to which ``shards`` belongs.
    headers : bool
        If true, the join adds the headers of versions to its result.
    everywhere : bool
        If true, every task reads all shards. If false, Spark routes each row to the task of its
        shard.
    cache_bytes : int
        The greatest size of a worker's cache in bytes.
    follow : bool
        If true, each task reads the version of the store that is newest when the task starts.
    """

    reader: ShardReader
    shards: tuple[Shard, ...]
    version: int
    headers: bool
    everywhere: bool
    cache_bytes: int
    follow: bool = False

    @contextmanager
    def open(self, shard: int | None) -> Iterator[InMemoryVersions | ShardLookup]:
        """Return a context manager that yields an object with which a task looks up versions.

        ``shard`` is the number of the shard that the task reads, or None if the task reads all
        shards. The object can be used only while the context is open.
        """
        from kstore_core.spark.join.histories import load_versions
        from kstore_core.spark.join.in_memory import CACHE

        every, reader = self.shards, self.reader
        if self.follow:
            every, reader = _newest(self)
        shards = every if shard is None else (every[shard],)
        versions = CACHE.get(
            (_identity(reader, shards), reader.spec.value.name, self.cache_bytes),
            lambda: load_versions(
                reader,
                shards,
                max_bytes=self.cache_bytes,
                share_as=partial(_identity, reader),
            ),
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


def _identity(reader: ShardReader, shards: Sequence[Shard]) -> str:
    """Return a text that identifies the versions of some shards.

    The paths alone do not identify the files, because another root may have been copied to the path
    of a deleted root.
    """
    paths = [each.path for each in shards]
    files = [file.sha256 for each in shards for file in each.files]
    spec = reader.spec
    return repr((str(reader.root), paths, files, spec.format.name, spec.history_retention_ms))


@dataclass(frozen=True, slots=True)
class ShardLookup:
    """The open shards of a join, for versions that exceed the size of a worker's cache.

    Attributes
    ----------
    stores : sequence
        The open store of each shard, or None for an empty shard.
    spec : StoreSpec
        The spec of the store.
    """

    stores: Sequence[Any]
    spec: StoreSpec

    rows_at_once: ClassVar[int] = 100_000
    """The number of rows that a task should collect before it looks up their versions."""

    def for_rows(
        self, batch: pa.RecordBatch, keys_and_times: KeysAndTimes
    ) -> InMemoryVersions | None:
        """Read the versions that the rows of ``batch`` may match, and return them.

        Return None if the batch has several keys and their versions need too much memory. The
        caller must then split the batch.
        """
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
                    if size > _MOST_BYTES and len(keys) > 1:
                        return None
        horizons = [NEVER if store is None else store.clock.horizon for store in self.stores]
        return InMemoryVersions.of(self.spec, tables, horizons)


_SEEN: dict[str, Manifest] = {}
"""The manifest that this process read last, for each root that a join with ``follow`` reads."""


def _newest(source: Source) -> tuple[tuple[Shard, ...], ShardReader]:
    """Return the shards of the newest version of the store, and the reader of these shards.

    Raise a StateError if the spec or the number of shards of the newest version differs from those
    of ``source``.
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
                f"version {manifest.version} of {root} has {name}={there.get(name)!r}, but this "
                f"query started with version {source.version}, which has "
                f"{name}={here.get(name)!r}; start the query again"
            )
    return manifest.shards, replace(source.reader, engine=manifest.engine)
