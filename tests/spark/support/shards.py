"""Shards written without Spark, for what a task does with them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from kstore_core import open_state
from kstore_core.codec import partition
from kstore_core.spark.join.versions import Source
from kstore_core.spark.root.manifest import File, Shard
from kstore_core.spark.root.root import Root
from kstore_core.spark.shards.published import ShardReader
from kstore_core.spec import StoreSpec
from tests.spark.support.logs import Record


def put_shards(
    root: Path, records: Iterable[Record], spec: StoreSpec, shards: int
) -> tuple[Shard, ...]:
    """Put records into the shards of their keys; one that gets none is left out."""
    parts: dict[int, list[Record]] = {}
    for record in records:
        parts.setdefault(partition(record.key, shards), []).append(record)
    for number, part in parts.items():
        with open_state(root / f"shard-{number}", engine="rocksdb") as state:
            store = state.open(spec)
            for record in part:
                given = {"headers": record.headers} if spec.format.headers else {}
                store.put(record.key, record.value, timestamp=record.timestamp, **given)
    return tuple(
        Shard(number, f"shard-{number}", files_of(root / f"shard-{number}"))
        if number in parts
        else Shard(number)
        for number in range(shards)
    )


def files_of(directory: Path) -> tuple[File, ...]:
    """What a manifest says of the files of a closed shard."""
    return tuple(
        File(
            path.relative_to(directory).as_posix(),
            path.stat().st_size,
            hashlib.sha256(path.read_bytes()).hexdigest(),
        )
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    )


def source_of(
    root: Path, shards: tuple[Shard, ...], spec: StoreSpec, *, cache_bytes: int, **options: Any
) -> Source:
    """What a join's tasks know of these shards."""
    reader = ShardReader(Root.at(root), spec, "rocksdb")
    given = {"headers": spec.format.headers, "everywhere": True, **options}
    return Source(reader, shards, 1, cache_bytes=cache_bytes, **given)
