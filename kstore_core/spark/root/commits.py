"""The commits of a live shard on an object store.

::

    <shard>/commits/<number>.json                     a commit; the greatest number is the newest
    <shard>/changes/<number>-<attempt>.arrow          the changes of one commit
    <shard>/checkpoints/<number>-<attempt>/<file>     all files of the state directory

A commit names a checkpoint and the changes since the checkpoint. The checkpoint and the changes
together are the state of the shard. The number of a commit is one greater than the number of the
commit that it continues. The storage refuses a second commit with the same number, so only one of
several writers can continue a commit.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from kstore_core.checks import check_layout
from kstore_core.errors import InconsistentStateError, KStoreError
from kstore_core.spark.live.epochs import Epoch
from kstore_core.spark.root.manifest import File, Shard
from kstore_core.spark.root.storage.base import Entry, Storage

__all__ = ["ChangeFile", "ShardCommit", "ShardCommits", "unnamed_folders", "unneeded"]

_FORMAT, _SEALED_FORMAT = 1, 2
_COMMITS = "commits"
_NAME = re.compile(r"([0-9]{20})\.json")
_DOCUMENT = re.compile(r"(live/[^/]+)/map_state(?:-[0-9]+)?\.json")
_RESCALED = re.compile(r"live/[^/]+/rescaled-[^/]+")
_FILE = re.compile(r"(.+)/(?:commits|changes|checkpoints)/([0-9]{20})[-.].+")


@dataclass(frozen=True, slots=True)
class ChangeFile:
    """A file of changes: its path in the shard, its size in bytes, and its SHA-256."""

    path: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class ShardCommit:
    """A commit of a live shard.

    Attributes
    ----------
    number : int
        The number of the commit, from 1 on.
    epoch : Epoch
        The epoch that the commit applied.
    attempt : str
        The unique id of the attempt that made the commit.
    checkpoint : Shard, optional
        The newest checkpoint. Its paths are relative to the root. None if there is no checkpoint.
    changes : tuple of ChangeFile
        The changes since the checkpoint, in the order of their commits.
    sealed : int
        The number of the file ``map_state-<number>.json`` that a rescale of the state will publish,
        or 0 without a rescale. Only a task that read this file, or a later one, may continue the
        commit.
    """

    number: int
    epoch: Epoch
    attempt: str
    checkpoint: Shard | None = None
    changes: tuple[ChangeFile, ...] = ()
    sealed: int = 0

    def to_json(self) -> str:
        """Return the content of the file of the commit."""
        checkpoint = None
        if self.checkpoint is not None:
            files = [asdict(file) for file in self.checkpoint.files]
            checkpoint = {"path": self.checkpoint.path, "files": files}
        document = {
            "format": _SEALED_FORMAT if self.sealed else _FORMAT,
            "number": self.number,
            "query": self.epoch.query,
            "epoch": self.epoch.number,
            "attempt": self.attempt,
            "checkpoint": checkpoint,
            "changes": [asdict(each) for each in self.changes],
        }
        if self.sealed:
            document["sealed"] = self.sealed
        return json.dumps(document, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str, where: str) -> ShardCommit:
        """Parse the content of a file.

        Raises InconsistentStateError if the file is not a commit. The error names the file
        ``where``. Raises StateError if a newer kstore wrote the file.
        """
        try:
            document: Mapping[str, Any] = json.loads(text)
            check_layout(document["format"], _SEALED_FORMAT, where)
            found = document["checkpoint"]
            checkpoint = None
            if found is not None:
                files = tuple(File(**file) for file in found["files"])
                checkpoint = Shard(0, path=found["path"], files=files)
            return cls(
                document["number"],
                Epoch(document["query"], document["epoch"]),
                document["attempt"],
                checkpoint,
                tuple(ChangeFile(**each) for each in document["changes"]),
                document.get("sealed", 0),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InconsistentStateError(
                f"{where} is not a commit of a shard ({type(error).__name__}: {error}). Restore "
                "the file from a copy, or pass another root and a new checkpoint"
            ) from error


@dataclass(frozen=True, slots=True)
class ShardCommits:
    """The commits of the shard in the directory ``place`` of a storage."""

    storage: Storage
    place: str

    def __str__(self) -> str:
        return f"{self.storage.name}/{self.place}"

    def numbers(self, since: int = 0) -> list[int]:
        """Return the numbers of the commits from ``since`` on, in ascending order."""
        after = f"{since - 1:020}.json" if since > 0 else ""
        names = self.storage.names(f"{self.place}/{_COMMITS}", after=after)
        return [int(match[1]) for name in names if (match := _NAME.fullmatch(name))]

    def read(self, number: int) -> ShardCommit:
        """Return a commit.

        Raises FileNotFoundError if there is no such commit. The other errors are those of
        :meth:`ShardCommit.from_json`.
        """
        name = self.name_of(number)
        text = self.storage.read(name).decode(errors="replace")
        return ShardCommit.from_json(text, f"{self.storage.name}/{name}")

    def put(self, commit: ShardCommit) -> ShardCommit:
        """Write a commit, and return the commit that now has its number.

        The result differs from ``commit`` if another attempt has written a commit of that number.
        """
        text = commit.to_json().encode()
        try:
            self.storage.put_new(self.name_of(commit.number), text)
        except FileExistsError:
            return self.read(commit.number)
        except (OSError, KStoreError):  # The write may have succeeded.
            try:
                return self.read(commit.number)
            except FileNotFoundError:
                pass
            raise
        return commit

    def name_of(self, number: int) -> str:
        """Return the name of the file of a commit in the storage."""
        return f"{self.place}/{_COMMITS}/{number:020}.json"

    def places(self, commit: ShardCommit) -> Iterator[str]:
        """Yield the names of all files in the storage that the state of a commit needs."""
        yield self.name_of(commit.number)
        for change in commit.changes:
            yield f"{self.place}/{change.path}"
        if commit.checkpoint is not None:
            for file in commit.checkpoint.files:
                yield commit.checkpoint.place_of(file)


def unnamed_folders(storage: Storage, listed: Iterable[Entry]) -> list[Entry]:
    """Return the files of rescaled shards that no document of a state names.

    ``listed`` contains all files of the directory ``live``. A rescale that was killed leaves files
    that no document names.
    """
    entries = list(listed)
    folders = set()
    for entry in entries:
        match = _DOCUMENT.fullmatch(entry.name)
        if match:
            folders.add(f"{match[1]}/{json.loads(storage.read(entry.name)).get('folder', '')}")
    return [
        entry
        for entry in entries
        if (match := _RESCALED.match(entry.name)) and match[0] not in folders
    ]


def unneeded(storage: Storage, listed: Iterable[Entry]) -> list[Entry]:
    """Return those files of live shards that no later commit can need.

    ``listed`` contains files of the directory ``live``. The newest commit of a shard names the
    files that the shard needs. A file with a greater number than this commit is not in the result,
    because the next commit may name the file.
    """
    of_shard: dict[str, list[tuple[int, Entry]]] = defaultdict(list)
    for entry in listed:
        match = _FILE.fullmatch(entry.name)
        if match:
            of_shard[match[1]].append((int(match[2]), entry))
    found = []
    for place, entries in of_shard.items():
        commits = ShardCommits(storage, place)
        numbers = commits.numbers()
        if numbers:
            newest = commits.read(numbers[-1])
            named = {*commits.places(newest)}
            found += [
                entry
                for number, entry in entries
                if number <= newest.number and entry.name not in named
            ]
    return sorted(found, key=lambda entry: entry.name)
