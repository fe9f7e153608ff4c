"""The contents of a root's shards."""

from __future__ import annotations

from kstore_core import open_state
from kstore_core.spark.root.root import Root
from tests.spark.support.logs import (
    SHARDS,
    SPEC,
    Version,
    in_order,
    make_log,
)

LOG = make_log(31, 60, SHARDS)


def contents(root: Root, version: int | None = None) -> list[Version]:
    """All versions of all keys that a version of the store holds."""
    found = []
    for shard in root.load(version).shards:
        if shard.path is None:
            continue
        with root.local_shard(shard) as path, open_state(path, read_only=True) as state:
            store = state.open(SPEC)
            for key in {record.key for record in LOG}:
                found += [
                    Version(
                        key,
                        record.value,
                        record.timestamp,
                        record.valid_to,
                        tuple(record.headers),
                        shard.shard,
                    )
                    for record in store.history(key)
                ]
    return in_order(found)
