"""The state directories of PATH: itself, or the shards of a store that Spark wrote."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kstore_core import serdes
from kstore_core.cli.parameters.values import key_bytes
from kstore_core.codec import partition
from kstore_core.errors import SpecError, StateError

__all__ = ["Places", "is_root", "places", "refuse_shards"]


@dataclass(frozen=True, slots=True)
class Places:
    """State directories.

    Attributes
    ----------
    directories : list of Path
        In the order of the shards; shards that nothing was written to are left out.
    version : int or None
        The partitioned store's version; None for a single state directory.
    key_serde : str or None
        The name of the key serde of the partitioned store; None for a single state directory.
    shards : list of int
        The numbers of the shards, in the order of ``directories``.
    partitions : int
        The number of shards.
    """

    directories: list[Path]
    version: int | None = None
    key_serde: str | None = None
    shards: tuple[int, ...] = ()
    partitions: int = 1

    def by_key(self, key: str, *, is_hex: bool, key_serde: str | None) -> list[Path]:
        """Return the directories, beginning with that of the shard in which Kafka's partitioner
        puts the key."""
        name = key_serde or self.key_serde
        if self.version is None or (name not in serdes.BUILT_IN and not is_hex):
            return self.directories
        serde = serdes.BUILT_IN.get(name or "bytes", serdes.BYTES)
        likely = partition(key_bytes(key, serde, is_hex=is_hex), self.partitions)
        order = sorted(range(len(self.directories)), key=lambda at: self.shards[at] != likely)
        return [self.directories[at] for at in order]


def places(path: Path) -> Places:
    """Find the state directories at ``path``; for a store that Spark wrote, the directories of its
    newest version.

    Raises
    ------
    StateError
        A manifest cannot be read, or a shard is not one complete directory.
    CorruptionError
        A file of a shard is missing, has another size, or is behind a symbolic link.
    """
    if not is_root(path):
        return Places([path])
    from kstore_core.spark.root.root import Root

    root = Root.at(path)
    manifest = root.load()
    for shard in manifest.shards:
        if not shard.in_one_place:
            raise StateError(
                f"shard {shard.shard} of {path} has files in earlier attempts, as appends on an "
                "object store leave them, so it cannot be opened as one directory. Read it with "
                "kstore_core.spark.read_store, or write it anew with write_store"
            )
    written = [shard for shard in manifest.shards if shard.path is not None]
    directories = []
    for shard in written:
        with root.local_shard(shard) as directory:
            directories.append(directory)
    return Places(
        directories,
        manifest.version,
        manifest.spec.get("key"),
        tuple(shard.shard for shard in written),
        manifest.partitions,
    )


def is_root(path: Path) -> bool:
    """Return True if a store that Spark wrote is at ``path``, and not a state directory."""
    return (path / "_kstore").is_dir()


def refuse_shards(path: Path) -> None:
    """Refuse a store that Spark wrote: its versions are never changed.

    Raises
    ------
    SpecError
    """
    for place in (path, *path.resolve().parents):
        if is_root(place):
            raise SpecError(
                f"{place} is a store that Spark wrote, whose versions are never changed; read it "
                "and write it anew in the other format"
            )
