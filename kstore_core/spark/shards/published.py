"""The reader that opens published shards on a worker."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from kstore_core.spark.root.manifest import Shard
from kstore_core.spark.root.root import Root
from kstore_core.spark.runtime.engines import engine_on_worker
from kstore_core.spec import StoreSpec

__all__ = ["ShardReader", "bare"]


@dataclass(frozen=True, slots=True)
class ShardReader:
    """A reader that opens the shards of a version of a store on a worker."""

    root: Root
    spec: StoreSpec
    engine: str

    @contextmanager
    def open(self, shard: Shard) -> Iterator[Any]:
        """Open the store of a published shard for reading. ``shard`` must have a path."""
        from kstore_core import open_state

        engine_on_worker(self.engine)
        assert shard.path is not None
        with (
            self.root.local_shard(shard) as path,
            open_state(path, engine=self.engine, read_only=True) as state,
        ):
            yield state.open(bare(self.spec))


def bare(spec: StoreSpec) -> StoreSpec:
    """Return a copy of ``spec`` without cache, metrics and changelogs.

    A read needs none of these.
    """
    return replace(spec, cache=None, metrics=None, changelog=())
