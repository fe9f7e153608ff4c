"""The rescale of a state of `map_state` on an object store, between two runs of its query.

A document of the state is a file with the state's properties. The rescale first seals each shard
with a commit. After this commit, only tasks that were bound to the next document can commit. Then
the rescale builds the new shards in a new folder. At last, the rescale writes the next document,
which names this folder. Only one writer can create the next document: this rescale, another
rescale, or the undo of a rescale that failed.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kstore_core.errors import CommitConflictError, KStoreError, SpecError
from kstore_core.spark.live.epochs import Epoch
from kstore_core.spark.map_state.replay import RESCALED_NOTE
from kstore_core.spark.map_state.sharding import Sharding, document_name, newest_document
from kstore_core.spark.remote.layout import RemoteLayout
from kstore_core.spark.rescale.building import BuildTask
from kstore_core.spark.rescale.live import examined, found_state, merged
from kstore_core.spark.rescale.moving import move_rows
from kstore_core.spark.rescale.reading import RowsTask
from kstore_core.spark.root.commits import ShardCommit, ShardCommits
from kstore_core.spark.root.manifest import Shard
from kstore_core.spark.root.root import Root
from kstore_core.spark.root.shard_files import upload_files
from kstore_core.spark.root.storage.base import Storage
from kstore_core.spark.runtime.engines import engine_on_worker
from kstore_core.spark.runtime.server import on_server
from kstore_core.spark.runtime.worker_errors import told, typed_errors
from kstore_core.spec import StoredSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["RemoteFolder", "SealedShards", "rescale_remote_state"]

_SEALS = 16
_LOCK_TIMEOUT_S = 600.0


@dataclass(frozen=True, slots=True)
class SealedShards:
    """The sealed shards, which no query can change. ``number`` belongs to the next document."""

    layout: RemoteLayout
    identity: str
    sharding: Sharding
    number: int

    @property
    def engine(self) -> str:
        """The name of the engine of the shards."""
        return self.sharding.engine

    @contextmanager
    def place(self, number: int) -> Iterator[Path | None]:
        """Yield a copy of a shard on this machine, or None if nothing was written to the shard."""
        with self.layout.checkout(
            self.identity, self.sharding.folder, number, self.engine, _LOCK_TIMEOUT_S, self.number
        ) as live:
            yield live.path if live.path.is_dir() else None

    def examine(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the spec and the epochs of each shard whose number is in the first column."""
        engine_on_worker(self.engine)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                with self.place(number) as path:
                    found = None
                    if path is not None:
                        found = examined(path, self.engine, self.sharding.store)
                about = None if found is None else [found[0].describe(), found[1]]
                yield pa.RecordBatch.from_pydict(
                    {"about": [json.dumps([number, about])]}, pa.schema([("about", pa.string())])
                )

    def publish(self, sharding: Sharding) -> None:
        """Write the state's next document, which names the new shards.

        Raise a CommitConflictError if the document exists already with another content.
        """
        text, name = sharding.to_json(), document_name(self.number)
        try:
            created = self.layout.create(name, text)
        except (OSError, KStoreError):  # The write may have succeeded.
            if self.layout.read(name) != text:
                raise
            return
        if not created and self.layout.read(name) != text:
            raise CommitConflictError(
                f"{self.layout}/{name} was written by another rescale, or by an undo of this one, "
                "so the new shards are not used. A vacuum removes them. Check the present number "
                "of shards, and rescale again if you need another number"
            )

    def undo(self) -> None:
        """Undo the seals, so that queries can continue with the present shards."""
        self.publish(self.sharding)


@dataclass(frozen=True, slots=True)
class RemoteFolder:
    """The folder ``place`` of a storage, for the new shards of a state."""

    storage: Storage
    place: str
    number: int
    keeps_empty: bool = True

    def scratch(self) -> Path:
        """Return a new directory on a disk of the worker."""
        return Path(tempfile.mkdtemp(prefix="kstore-shard-"))

    def put(self, shard: Shard, built: Path, attempt: int) -> Shard:
        """Upload a shard as the checkpoint of its first commit. Only one attempt can commit."""
        place, name = f"{self.place}/{built.name}", uuid.uuid4().hex[:12]
        checkpoint = f"{place}/checkpoints/{1:020}-{name}"
        files = upload_files(self.storage, built, checkpoint, None, {})
        epoch = Epoch("rescale", self.number)
        commit = ShardCommit(1, epoch, name, Shard(0, checkpoint, files))
        ShardCommits(self.storage, place).put(commit)
        return shard


def rescale_remote_state(
    spark: SparkSession,
    root: str | os.PathLike[str],
    storage_options: Mapping[str, Any] | None,
    store: str,
    partitions: int,
) -> tuple[Sharding, str, int]:
    """Move the rows of a state of `map_state` to another number of shards.

    Return the earlier properties of the state, the address of the new shards, and the number of
    rows. If ``partitions`` is the present number of shards, undo a rescale that was killed. The
    errors are those of :func:`kstore_core.spark.rescale`.
    """
    old = on_server(spark, _sealed, root, storage_options, store, partitions)
    before = old.sharding
    if before.partitions == partitions:
        return before, f"{old.layout}/{before.folder}".rstrip("/"), 0
    folder = f"rescaled-{old.number}-{uuid.uuid4().hex[:12]}"
    # Only the keys select the new shards, as in a rescale on a disk.
    after = replace(before, partitions=partitions, partition_by="key", folder=folder)
    try:
        rows = _move(spark, old, partitions, folder)
        on_server(spark, old.publish, after)
    except BaseException:
        with contextlib.suppress(Exception):  # Another writer was faster, or the storage fails.
            on_server(spark, old.undo)
        raise
    return before, f"{old.layout}/{folder}", rows


def _sealed(
    root: str | os.PathLike[str],
    storage_options: Mapping[str, Any] | None,
    store: str,
    partitions: int,
) -> SealedShards:
    """Seal all shards, or undo a rescale if ``partitions`` is the present number of shards."""
    storage = Root.at(root, storage_options).storage
    layout = RemoteLayout.of(storage, store)
    identity, sharding = found_state(storage, layout, store)
    old = SealedShards(layout, identity, sharding, newest_document(layout) + 1)
    places = [
        ShardCommits(
            storage, "/".join(filter(None, (layout.place, sharding.folder, f"0_{number}")))
        )
        for number in range(sharding.partitions)
    ]
    if sharding.partitions == partitions:
        if not any(_is_sealed(commits, old.number) for commits in places):
            raise SpecError(
                f"{layout} already has {partitions} shards; pass another number as partitions"
            )
        old.undo()
        return old
    with ThreadPoolExecutor(_SEALS) as threads:
        list(threads.map(partial(_seal, number=old.number), places))
    return old


def _newest(commits: ShardCommits) -> ShardCommit | None:
    while numbers := commits.numbers():
        with contextlib.suppress(FileNotFoundError):  # A vacuum has removed the commit.
            return commits.read(numbers[-1])
    return None


def _is_sealed(commits: ShardCommits, number: int) -> bool:
    newest = _newest(commits)
    return newest is not None and newest.sealed >= number


def _seal(commits: ShardCommits, number: int) -> None:
    """Put a commit that seals a shard for the document ``number``, after all other commits."""
    while True:
        newest = _newest(commits)
        attempt = uuid.uuid4().hex[:12]
        if newest is None:
            seal = ShardCommit(1, Epoch("rescale", number), attempt, sealed=number)
        elif newest.sealed >= number:
            return
        else:
            seal = replace(newest, number=newest.number + 1, attempt=attempt, sealed=number)
        if commits.put(seal).attempt == attempt:
            return


def _move(spark: SparkSession, old: SealedShards, partitions: int, folder: str) -> int:
    """Build the new shards, and return the number of rows."""
    before = old.sharding.partitions
    numbers = spark.range(0, before, 1, before)
    with typed_errors():
        found = numbers.mapInArrow(told(old.examine), "about string").collect()
    abouts = sorted(json.loads(row.about) for row in found)
    stored, epochs, _ = merged(
        old.layout,
        (
            (number, None if about is None else (_spec(about[0]), about[1]))
            for number, about in abouts
        ),
    )
    if stored is None:
        return 0
    build = BuildTask(
        RemoteFolder(old.layout.storage, f"{old.layout.place}/{folder}", old.number),
        stored,
        old.engine,
        tuple(map(Shard, range(partitions))),
        {RESCALED_NOTE: b"%d" % before},
        epochs,
    )
    shards = move_rows(spark, RowsTask(old, stored, before, partitions), build)
    return sum(shard.rows for shard in shards)


def _spec(described: Mapping[str, Any]) -> StoredSpec:
    return StoredSpec.parse(json.dumps(described).encode())
