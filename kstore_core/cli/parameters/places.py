"""The state directories that PATH refers to: PATH itself, or the shards of a store of Spark."""

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
    """The state directories that a path refers to.

    Attributes
    ----------
    directories : list of Path
        The state directories, in the order of the shards. Shards without any files are left out.
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
        """Return the directories in the order in which they should be searched for a key.

        If the key's serde is known, the first directory is the shard to which Kafka's partitioner
        assigns the key, unless nothing was written to this shard.
        """
        name = key_serde or self.key_serde
        if self.version is None or ((name is None or serdes.found(name) is None) and not is_hex):
            return self.directories
        serde = serdes.found(name or "bytes") or serdes.BYTES
        likely = partition(key_bytes(key, serde, is_hex=is_hex), self.partitions)
        order = sorted(range(len(self.directories)), key=lambda at: self.shards[at] != likely)
        return [self.directories[at] for at in order]


def places(path: Path) -> Places:
    """Return the state directories that ``path`` refers to.

    For a store that Spark wrote, they are the shards of its newest version.

    Raises
    ------
    StateError
        A manifest cannot be read, or the files of a shard are in several directories.
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
                f"shard {shard.shard} of {path} has files in several directories, because a job on "
                "an object store has appended rows to it. Such a shard cannot be opened as one "
                "directory. Read the store with kstore_core.spark.read_store, or write the store "
                "anew with write_store"
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
    """Return True if ``path`` is the root of a store that Spark wrote."""
    return (path / "_kstore").is_dir()


def refuse_shards(path: Path) -> None:
    """Refuse a store that Spark wrote, because its versions must not be changed.

    Raises
    ------
    SpecError
        The path, or a directory above it, is the root of such a store.
    """
    for place in (path, *path.resolve().parents):
        if is_root(place):
            raise SpecError(
                f"{place} is a store that Spark wrote, and kstore never changes a version of such "
                "a store. Read the store, and write it anew"
            )
