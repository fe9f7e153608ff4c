"""write_store: a changelog DataFrame restored into a partitioned store, as one new version."""

from __future__ import annotations

import contextlib
import os
import time
import uuid
from typing import TYPE_CHECKING, Literal

from kstore_core.errors import SpecError, StateError
from kstore_core.spark.cluster_engines import check_shared_engine
from kstore_core.spark.manifest import Manifest, Shard
from kstore_core.spark.roots import Root
from kstore_core.spec import StoreSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["write_store"]

Mode = Literal["append", "overwrite", "error", "ignore"]
_MODES = ("append", "overwrite", "error", "errorifexists", "ignore")


def write_store(
    df: DataFrame,
    root: str | os.PathLike[str],
    spec: StoreSpec,
    *,
    partitions: int,
    partition_by: Literal["key", "partition"] | None = None,
    mode: Mode = "append",
    engine: str = "rocksdb",
) -> Manifest:
    """Restore a partitioned store from a changelog, and publish it as a new version.

    Every shard is a state directory of its own, built by one Spark task. Nothing is visible before
    all of them are whole; then one manifest makes them the newest version. Old versions stay.

    Parameters
    ----------
    df : DataFrame
        The columns of Spark's Kafka source: ``key`` and ``value`` (binary, or of the type of the
        serde), ``timestamp`` (timestamp, or long milliseconds), ``headers`` where the format keeps
        them; ``topic``, ``partition`` and ``offset`` where they are known. A null value is a
        tombstone. With offsets, records come in their order, and those that a shard contains
        already are left out; without, they come in the order of ``df``.
    root : path
        The store's directory; local, or mounted alike on every machine of the cluster.
    spec : StoreSpec
        From the factories in :mod:`kstore_core.stores`.
    partitions : int
        The number of shards.
    partition_by : {"partition", "key"}, optional
        Which shard a record goes to: the one of its column ``partition``, which has to be where
        murmur2 puts its key, or the one where murmur2 puts it, wherever it was. The former where
        there is such a column, else the latter.
    mode : {"append", "overwrite", "error", "ignore"}
        What to do where the root holds a version: go on from it, start from nothing, raise, or
        leave it as it is.
    engine : str
        The storage engine of new shards.

    Returns
    -------
    Manifest
        Of the version that was published; of the newest one for ``"ignore"``.

    Raises
    ------
    SpecError
        The columns do not fit, a record has no key or time, is in the wrong shard or is not what
        the serdes read, or the root holds another store. Nothing was published.
    UnsupportedError
        The engine keeps its data in one process, or the root is on a file system not known yet.
    StateError
        There is a version and the mode is ``"error"``, or the root holds something else.
    CommitConflictError
        Another writer published meanwhile. Nothing of this job was.
    """
    from kstore_core.spark.frames import by_shard, check_log, log_columns
    from kstore_core.spark.shards import MESSAGE_DDL, ShardWriter, read_message

    home = Root.at(root)
    if mode not in _MODES:
        raise ValueError(f"mode={mode!r}; there are: {', '.join(_MODES)}")
    if isinstance(partitions, bool) or not isinstance(partitions, int) or partitions < 1:
        raise SpecError(f"partitions={partitions!r}; a store has at least one")
    check_shared_engine(engine)
    check_log(df, spec)
    by_key = _by_key(df, partition_by)
    newest = home.newest()
    if newest is None:
        home.check_unused()
    elif mode == "ignore":
        return newest
    elif mode in ("error", "errorifexists"):
        raise StateError(
            f"{home} holds version {newest.version} of the store {newest.spec['name']!r}; "
            "pass mode='append' to go on from it, or mode='overwrite' to start anew"
        )
    else:
        _check_same_store(home, newest, spec, partitions, engine, appending=mode == "append")
    parents = {}
    if newest is not None and mode == "append":
        parents = {shard.shard: shard for shard in newest.shards}

    job = uuid.uuid4().hex
    home.begin(job)
    try:
        writer = ShardWriter(home, job, spec, engine, partitions, parents)
        log = log_columns(df, spec, by_key=by_key, partitions=partitions)
        built = by_shard(log, partitions, "shard").mapInArrow(writer.build, MESSAGE_DDL)
        written = {}
        for row in built.collect():
            shard = read_message(row.message)
            written[shard.shard] = shard
        manifest = Manifest(
            version=1 if newest is None else newest.version + 1,
            created_ms=time.time_ns() // 1_000_000,
            job=job,
            mode="append" if mode == "append" else "overwrite",
            engine=engine,
            partitions=partitions,
            spec=spec.describe(),
            shards=tuple(
                written.get(number) or parents.get(number) or Shard(number)
                for number in range(partitions)
            ),
            written_by=_program(),
        )
        home.publish(manifest)
    except BaseException:
        home.discard(job)
        raise
    with contextlib.suppress(OSError):
        home.keep_only(job, manifest)
    return manifest


def _by_key(df: DataFrame, partition_by: str | None) -> bool:
    there = "partition" in df.columns
    if partition_by is None:
        return not there
    if partition_by not in ("key", "partition"):
        raise ValueError(f"partition_by={partition_by!r}; there are: 'key', 'partition'")
    if partition_by == "partition" and not there:
        raise SpecError("partition_by='partition', and the DataFrame has no column 'partition'")
    return partition_by == "key"


def _check_same_store(
    home: Root, newest: Manifest, spec: StoreSpec, partitions: int, engine: str, *, appending: bool
) -> None:
    """Refuse to go on from another store, or to hide another kind of store behind a new version."""
    given = {**spec.describe(), "partitions": partitions, "engine": engine}
    there = {**newest.spec, "partitions": newest.partitions, "engine": newest.engine}
    always = ["name", "shape"]
    fixed = list(always)
    if appending:
        fixed += ["format", "key", "value", "segment_interval_ms", "partitions", "engine"]
    differing = [name for name in fixed if there.get(name) != given.get(name)]
    differences = [
        f"{name} is {there.get(name)!r} there and {given.get(name)!r} here" for name in differing
    ]
    if differences:
        hint = "Use another root"
        if set(differing).isdisjoint(always):
            hint += ", or mode='overwrite' to start a version from nothing"
        raise SpecError(
            f"{home} holds another store at version {newest.version}: "
            f"{'; '.join(differences)}. {hint}"
        )


def _program() -> str:
    from importlib import metadata

    try:
        return f"kstore {metadata.version('kstore')}"
    except metadata.PackageNotFoundError:
        return "kstore"
