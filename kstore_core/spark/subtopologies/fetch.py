"""The function `fetch_tasks`, which copies the stores of a topology for readers and tools."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kstore_core.discovery.registry import make_engine
from kstore_core.errors import StateError
from kstore_core.spark.live.layout import LIVE
from kstore_core.spark.map_state.sharding import SUBTOPOLOGY, Sharding
from kstore_core.spark.remote.layout import RemoteLayout
from kstore_core.spark.root.commits import ShardCommits
from kstore_core.spark.root.root import Root

__all__ = ["fetch_tasks"]

_NAME = re.compile(rf"{SUBTOPOLOGY}-([0-9]+)")


def fetch_tasks(
    root: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    storage_options: Mapping[str, Any] | None = None,
) -> list[Path]:
    """Copy the stores of a topology of :func:`run_on_spark` to task directories.

    The directories have the names and, with the engine RocksDB, the format of Kafka Streams. Any
    tool for state directories can open them, such as ``open_state``, ``read_streams_dir`` and
    ``kstore inspect``. A query may run at the same time: each directory shows the newest commit of
    its shard.

    Parameters
    ----------
    root : path or address
        The root that was passed to :func:`run_on_spark`.
    target : path
        A directory that does not exist, or is empty.
    storage_options : mapping, optional
        Options of an object store; see docs/spark-roots.md.

    Returns
    -------
    list of Path
        The directories, ``<target>/<sub-topology>_<shard>``. A shard without a commit has no
        directory.

    Raises
    ------
    StateError
        The root has no state of a topology, or the target is not empty.
    CorruptionError
        A file of the state is missing or differs from its commit.
    """
    from kstore_core.spark.remote.checkout import fetch_shard  # loads pyarrow

    storage = Root.at(root, storage_options).storage
    parts = [name for name in storage.names(LIVE) if _NAME.fullmatch(name)]
    if not parts:
        raise StateError(
            f"{storage.name} has no state of a topology; pass the root of run_on_spark"
        )
    place = Path(target)
    place.mkdir(parents=True, exist_ok=True)
    if any(place.iterdir()):
        raise StateError(f"{place} is not empty; pass a directory that does not exist")
    made = []
    for name in parts:
        layout = RemoteLayout.of(storage, name)
        found = Sharding.of(layout)
        assert found is not None, name
        for shard in range(found[1].partitions):
            path = place / f"{name.rpartition('-')[2]}_{shard}"
            commits = ShardCommits(storage, f"{layout.place}/0_{shard}")
            if fetch_shard(commits, make_engine(found[1].engine), path):
                made.append(path)
    return made
