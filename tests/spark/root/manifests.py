"""Manifests of roots."""

from __future__ import annotations

from kstore_core import stores
from kstore_core.spark.root.manifest import File, Manifest, Offset, Shard

SPEC = stores.key_value("s")


def manifest(version: int = 3) -> Manifest:
    shard = Shard(
        0,
        "attempts/j/0-7/0_0",
        (File("rocksdb/s/1.sst", 10, "ab" * 32), File("x", 5, "cd" * 32)),
        rows=4,
        records=6,
        late=1,
        replayed=1,
        stream_time=99,
        offsets=(Offset("t", 0, 41), Offset("t", 4, 2)),
    )
    return Manifest(
        version,
        1_700_000_000_000,
        "j",
        "append",
        "rocksdb",
        2,
        SPEC.describe(),
        (shard, Shard(1)),
        "k",
    )
