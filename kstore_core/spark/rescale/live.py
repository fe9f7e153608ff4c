"""The rescale of a state of `map_state` on a disk, between two runs of its query.

The new shards are built in a new folder. Then a file that names this folder replaces the file
``map_state.json``. The earlier shards and a copy of the earlier file remain on the disk.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from kstore_core.errors import SpecError, StateError, UnsupportedError
from kstore_core.spark.live.epochs import EPOCHS, parse_epochs
from kstore_core.spark.live.layout import LIVE, Layout, LiveLayout, write_durably
from kstore_core.spark.map_state.replay import RESCALED_NOTE
from kstore_core.spark.map_state.sharding import (
    DOCUMENT,
    PARTITION_TIMES,
    SUBTOPOLOGY,
    BoundState,
    Sharding,
)
from kstore_core.spark.rescale.building import BuildTask, LiveFolder
from kstore_core.spark.rescale.moving import move_rows
from kstore_core.spark.rescale.reading import RowsTask
from kstore_core.spark.root.manifest import Shard
from kstore_core.spark.root.storage.base import Storage
from kstore_core.spark.root.storage.local import LocalFiles
from kstore_core.spark.runtime.server import is_connect
from kstore_core.spec import StoredSpec
from kstore_core.system.directories import sync_directory
from kstore_core.system.lock import LOCK_FILE, DirectoryLock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["LiveShards", "examined", "found_state", "merged", "rescale_state", "states_of"]

_SCRATCH = ".rescaling-"


@dataclass(frozen=True, slots=True)
class LiveShards:
    """The shards of a state, by their numbers. The driver has locked them."""

    state: BoundState[LiveLayout]
    engine: str
    written: frozenset[int]

    @contextmanager
    def place(self, number: int) -> Iterator[Path | None]:
        """Yield the live directory of a shard, or None if nothing was written to the shard.

        Raise a StateError if this machine sees another directory than the driver.
        """
        self.state.check_seen()
        yield (_path(self.state, number) if number in self.written else None)


def _path(state: BoundState[LiveLayout], number: int) -> Path:
    return state.layout.within(state.folder).shard(number)


def states_of(storage: Storage) -> list[str]:
    """Return the sorted names of the stores of `map_state` in a root."""
    found = []
    for name in storage.names(LIVE):
        with suppress(FileNotFoundError, NotADirectoryError):
            storage.size(f"{LIVE}/{name}/{DOCUMENT}")
            found.append(name)
    return found


def rescale_state(
    spark: SparkSession, root: Path, store: str, partitions: int
) -> tuple[Sharding, Path, int]:
    """Move the rows of a state of `map_state` to another number of shards.

    Return the earlier properties of the state, the directory of the new shards, and the number of
    rows. The errors are those of :func:`kstore_core.spark.rescale`.
    """
    if is_connect(spark):
        raise UnsupportedError(
            "a state of map_state cannot be rescaled with a session of Spark Connect, because the "
            "client would have to lock the shards. Run rescale in a classic session on a machine "
            "that sees the root"
        )
    layout = LiveLayout.of(root, store)
    identity, sharding = found_state(LocalFiles(root), layout, store)
    if sharding.partitions == partitions:
        raise SpecError(
            f"{layout.path} already has {partitions} shards; pass another number as partitions"
        )
    state = BoundState(layout, identity, sharding.folder)
    with ExitStack() as locks:
        for number in range(sharding.partitions):
            locks.enter_context(_locked(_path(state, number), sharding.engine))
        state.check_seen()
        for left in layout.path.glob(f"{_SCRATCH}*"):  # left by a driver that was killed
            shutil.rmtree(left)
        scratch = layout.path / f"{_SCRATCH}{uuid.uuid4().hex}"
        scratch.mkdir()
        try:
            rows = _move(spark, state, sharding, partitions, scratch)
            folder = _publish(layout, sharding, partitions, scratch)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    return sharding, folder, rows


def found_state(storage: Storage, layout: Layout, store: str) -> tuple[str, Sharding]:
    """Return the id and the properties of a state that can be rescaled."""
    found = Sharding.of(layout)
    if found is None:
        names = ", ".join(states_of(storage)) or "none"
        raise StateError(
            f"{storage.name} has no state of map_state for a store {store!r}; its states are: "
            f"{names}"
        )
    if store == PARTITION_TIMES:
        raise UnsupportedError(
            f"{layout} is the state of with_partition_time, which has a row for each "
            "partition of a topic, and no keys that could move to other shards. Leave this state "
            "as it is; rescale the states of map_state by passing their names as store"
        )
    if found[1].shape == SUBTOPOLOGY:
        raise UnsupportedError(
            f"{layout} is the state of a topology of run_on_spark, whose number of shards cannot "
            "be changed. Start the topology with another root and a new checkpoint, and let it "
            "read its sources from the beginning"
        )
    return found


def _move(
    spark: SparkSession,
    state: BoundState[LiveLayout],
    sharding: Sharding,
    partitions: int,
    scratch: Path,
) -> int:
    """Build the new shards in ``scratch``, and return the number of rows."""
    stored, epochs, written = _examined(state, sharding)
    if stored is None:
        return 0
    old = LiveShards(state, sharding.engine, frozenset(written))
    build = BuildTask(
        LiveFolder(scratch),
        stored,
        sharding.engine,
        tuple(map(Shard, range(partitions))),
        {RESCALED_NOTE: b"%d" % sharding.partitions},
        epochs,
    )
    shards = move_rows(spark, RowsTask(old, stored, sharding.partitions, partitions), build)
    return sum(shard.rows for shard in shards)


def _examined(
    state: BoundState[LiveLayout], sharding: Sharding
) -> tuple[StoredSpec | None, dict[str, int], list[int]]:
    """Return the stored spec, the last epoch of each query, and the shards that have a store."""
    return merged(
        state.layout,
        (
            (number, examined(_path(state, number), sharding.engine, sharding.store))
            for number in range(sharding.partitions)
        ),
    )


def examined(path: Path, engine: str, store: str) -> tuple[StoredSpec, dict[str, int]] | None:
    """Return the stored spec and the last epochs of a shard, or None if nothing was committed."""
    from kstore_core import open_state

    with open_state(path, engine=engine, read_only=True) as shard:
        spec = shard.stored_spec(store) if store in shard.stores() else None
        if spec is None:
            return None
        return spec, parse_epochs(shard.notes(store).get(EPOCHS), store, path)


def merged(
    layout: Layout, shards: Iterable[tuple[int, tuple[StoredSpec, dict[str, int]] | None]]
) -> tuple[StoredSpec | None, dict[str, int], list[int]]:
    """Return the spec of the shards, the last epoch of each query, and the shards with a store.

    The last epoch of a query is the greatest in all shards. If no shard has a store, the spec is
    None. Raise a StateError if two shards have different specs.
    """
    stored: StoredSpec | None = None
    epochs: dict[str, int] = {}
    written: list[int] = []
    for number, found in shards:
        if found is None:
            continue
        spec, of_shard = found
        if stored is not None and spec != stored:
            raise StateError(
                f"shard {number} of {layout} was written with another spec than shard "
                f"{written[-1]}. Shard {number} has {spec.describe()}, and shard {written[-1]} "
                f"has {stored.describe()}. Make the specs equal: run the query with its present "
                "spec until each shard has received rows, or use kstore upgrade. Then rescale again"
            )
        stored = spec
        written.append(number)
        for query, epoch in of_shard.items():
            epochs[query] = max(epoch, epochs.get(query, epoch))
    return stored, epochs, written


def _publish(layout: LiveLayout, sharding: Sharding, partitions: int, scratch: Path) -> Path:
    """Make the shards in ``scratch`` the shards of the state, and return their directory."""
    write_durably(scratch / DOCUMENT, (layout.path / DOCUMENT).read_text(encoding="utf-8"))
    taken = {path.name for path in layout.path.iterdir()}
    count = 1
    while f"rescaled-{count}" in taken:
        count += 1
    folder = layout.path / f"rescaled-{count}"
    for left in scratch.glob(".shard-*"):  # left by tasks that were killed
        shutil.rmtree(left)
    scratch.rename(folder)
    sync_directory(layout.path)
    # The column `partition` of later rows is the partition of a topic, which still has the old
    # number of partitions. So only the key can select the new shard of a row.
    given = replace(sharding, partitions=partitions, partition_by="key", folder=folder.name)
    write_durably(layout.path / DOCUMENT, given.to_json())
    return folder


@contextmanager
def _locked(path: Path, engine: str) -> Iterator[None]:
    """Lock the directory of a shard. Remove the directory at the end if it did not exist before."""
    is_new = not path.exists()
    path.mkdir(parents=True, exist_ok=True)
    lock = DirectoryLock(path, engine)
    try:
        yield
    finally:
        if is_new:
            (path / LOCK_FILE).unlink(missing_ok=True)
            with suppress(OSError):  # A task that waits for the lock may have made a new lock file.
                path.rmdir()
        lock.release()
