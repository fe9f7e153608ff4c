"""The change feed, which consists of the differences between two versions of a store."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kstore_core.errors import SpecError, UnsupportedError
from kstore_core.spark.read.batches import batches, rendered
from kstore_core.spark.read.plan import ReadPlan, View
from kstore_core.spark.read.read_store import Timestamps, frame_of
from kstore_core.spark.root.manifest import Manifest, Shard, manifest_spec
from kstore_core.spark.root.root import Root
from kstore_core.spark.runtime.server import on_server
from kstore_core.spec import StoreSpec

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from kstore_core.spark.shards.published import ShardReader

__all__ = ["plan_changes", "read_changes"]


def read_changes(
    spark: SparkSession,
    root: str | os.PathLike[str],
    from_version: int,
    to_version: int | None = None,
    *,
    columns: Sequence[str] | None = None,
    partitions: Sequence[int] | None = None,
    headers: bool | None = None,
    timestamps: Timestamps = "timestamp",
    spec: StoreSpec | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> DataFrame:
    """Read the differences between two versions of a partitioned store.

    The comparison uses the stored bytes of each record, with headers and times. A changed record
    appears in two rows, one from before and one from after the change. A change that a later change
    reverted does not appear. Shards with equal files are not opened.

    The records of a versioned store are the versions of its keys. A new version of a key is an
    ``insert``. A version of a key that ended is an update, because its ``valid_to`` changed. An
    expired version of a key is a ``delete``.

    Parameters
    ----------
    spark : SparkSession
        The session that reads the store.
    root : path or address
        The root of the store.
    from_version : int
        The older version of the store; 0 means an empty store.
    to_version : int, optional
        The newer version of the store; the newest version if None.
    columns, partitions, headers, timestamps, spec, storage_options
        The options of :func:`kstore_core.spark.read_store`.

    Returns
    -------
    DataFrame
        The column ``_change`` (``insert``, ``update_preimage``, ``update_postimage`` or
        ``delete``), and the columns that :func:`kstore_core.spark.read_store` returns.

    Raises
    ------
    StateError
        The root has no version with one of these numbers.
    TypeError
        The number of a version is not an int.
    SpecError
        ``from_version`` is greater than ``to_version``.
    UnsupportedError
        The two versions have different numbers of shards, or different types of keys or values.
    """
    view = View(columns, partitions, headers, timestamps)
    plan = on_server(spark, _planned, root, storage_options, from_version, to_version, view, spec)
    return frame_of(spark, plan)


def _planned(
    root: str | os.PathLike[str],
    storage_options: Mapping[str, Any] | None,
    from_version: int,
    to_version: int | None,
    view: View,
    spec: StoreSpec | None,
) -> ReadPlan:
    at = Root.at(root, storage_options)
    return plan_changes(at, from_version, to_version, view, spec)


def plan_changes(
    root: Root, from_version: int, to_version: int | None, view: View, spec: StoreSpec | None
) -> ReadPlan:
    """Return the plan of a :func:`read_changes`."""
    from kstore_core.spark.shards.published import ShardReader

    before = root.load(from_version) if from_version != 0 else None
    after = root.load(to_version)
    if before is not None and before.version > after.version:
        raise SpecError(
            f"from_version={from_version} is newer than to_version={after.version}; pass the older "
            "version as from_version"
        )
    spec = manifest_spec(after, spec, str(root))
    numbers = view.numbers(range(after.partitions), root)
    parts = tuple(part for part in _pairs(root, before, after) if part.number in numbers)
    task = ChangesTask(
        ShardReader(root, spec, after.engine if before is None else before.engine),
        ShardReader(root, spec, after.engine),
        view.schema(spec, f"the change feed of {spec.name!r}", ("partition",), ("_change",)),
    )
    return ReadPlan(task, parts)


@dataclass(frozen=True, slots=True)
class ShardPair:
    """A shard in the older and in the newer version. An empty shard is None."""

    number: int
    before: Shard | None
    after: Shard | None


def _pairs(root: Root, before: Manifest | None, after: Manifest) -> list[ShardPair]:
    """Return the shards that may differ between two versions of a store.

    If ``before`` is None, the older version is an empty store. Raise an UnsupportedError if the
    versions cannot be compared.
    """
    if before is not None and before.partitions != after.partitions:
        raise UnsupportedError(
            f"{root} has {before.partitions} shards in version {before.version} and "
            f"{after.partitions} in version {after.version}, so a key may be in different shards; "
            "read both versions and compare the DataFrames"
        )
    for name in ("key", "value"):
        old, new = (None if each is None else each.spec.get(name) for each in (before, after))
        if before is not None and old != new:
            raise UnsupportedError(
                f"the {name}s of {root} have the serde {old!r} in version {before.version} and "
                f"{new!r} in version {after.version}, so one column cannot contain both kinds of "
                f"{name}s; read both versions and compare the DataFrames"
            )
    olds: Sequence[Shard | None] = [None] * after.partitions if before is None else before.shards
    pairs = []
    for old, new in zip(olds, after.shards, strict=True):
        if old is None or _files(old) != _files(new):
            pair = ShardPair(new.shard, _written(old), _written(new))
            if pair.before is not None or pair.after is not None:
                pairs.append(pair)
    return pairs


def _written(shard: Shard | None) -> Shard | None:
    return None if shard is None or shard.path is None else shard


def _files(shard: Shard) -> list[tuple[str, str]]:
    return [(file.path, file.sha256) for file in shard.files]


@dataclass(frozen=True, slots=True)
class ChangesTask:
    """The task that compares two versions of a shard."""

    before: ShardReader
    after: ShardReader
    schema: pa.Schema

    def read(self, part: ShardPair) -> Iterator[pa.RecordBatch]:
        """Yield the differences in batches."""
        from kstore_core.spark.read.comparing import changes

        spec = self.after.spec
        with ExitStack() as stack:
            old, new = (
                None if shard is None else stack.enter_context(reader.open(shard))
                for reader, shard in ((self.before, part.before), (self.after, part.after))
            )
            for chunk in changes(spec, old, new, self.schema.names):
                constants = {"partition": part.number}
                yield from batches(rendered(chunk, spec, self.schema, constants))
