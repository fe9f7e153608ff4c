"""Partitioned stores of any shape, published without Spark."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from kstore_core import open_state
from kstore_core.spark.root.manifest import Manifest, Offset, Shard
from kstore_core.spark.root.root import Root
from kstore_core.spec import StoreSpec

if TYPE_CHECKING:
    from kstore_core.spark.read.plan import ReadPlan

Fill = Callable[[Any, int], None]
"""Writes into an open store what belongs into a shard."""


def publish(
    root: Path | Root, spec: StoreSpec, fill: Fill, *, partitions: int = 2, engine: str = "rocksdb"
) -> Manifest:
    """A new version of the store at ``root``: each shard goes on from the one before."""
    home = root if isinstance(root, Root) else Root.at(root)
    newest = home.newest()
    job = uuid4().hex
    home.begin(job)
    parents = {} if newest is None else {shard.shard: shard for shard in newest.shards}
    shards = []
    for number in range(partitions):
        parent = parents.get(number, Shard(number))
        with tempfile.TemporaryDirectory() as scratch:
            here = Path(scratch, f"0_{number}")
            if parent.path is not None:
                home.fetch(parent, here)
            with open_state(here, engine=engine) as state:
                store = state.open(spec)
                before = state.staged_bytes
                fill(store, number)
                touched = state.staged_bytes != before
            if not touched:
                shards.append(parent)
                continue
            place = f"{home.attempts(job)}/{number}-0/0_{number}"
            files = home.upload(here, place)
        shards.append(
            Shard(number, place, files, 7, stream_time=99, offsets=(Offset("log", number, 41),))
        )
    manifest = Manifest(
        1 if newest is None else newest.version + 1,
        time.time_ns() // 1_000_000,
        job,
        "append",
        engine,
        partitions,
        spec.describe(),
        tuple(shards),
        "by hand",
    )
    home.publish(manifest)
    return manifest


def rows_of(plan: ReadPlan) -> list[dict[str, Any]]:
    """What the tasks of a plan read, in this process; each batch has the schema that was said."""
    return [row for batch in _batches(plan) for row in batch.to_pylist()]


def _batches(plan: ReadPlan) -> Iterator[Any]:
    for part in plan.parts:
        for batch in plan.task.read(part):
            assert batch.schema.equals(plan.task.schema)
            yield batch
