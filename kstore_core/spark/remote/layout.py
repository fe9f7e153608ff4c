"""The files that describe a stream, or a state of `map_state`, on an object store.

::

    <root>/live/stream.json               the stream that owns the live directory
    <root>/live/0_<shard>/                the commits, changes and checkpoints of its shards
    <root>/live/<store>/map_state.json    the properties of the state
    <root>/live/<store>/query             the id of the streaming query that owns the state
    <root>/live/<store>/run-<n>           the number of the newest batch run
    <root>/live/<store>/0_<shard>/        the commits, changes and checkpoints of a shard
    <root>/live/<store>/map_state-<n>.json           the properties after the n-th rescale
    <root>/live/<store>/rescaled-<n>-<id>/0_<shard>/   the shards after the n-th rescale

:mod:`kstore_core.spark.root.commits` describes the files of a shard.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from kstore_core.errors import SpecError
from kstore_core.spark.live.layout import LIVE, LiveLayout
from kstore_core.spark.live.shard import LiveShard
from kstore_core.spark.root.commits import ShardCommits
from kstore_core.spark.root.root import check_conditions
from kstore_core.spark.root.storage.base import Storage

__all__ = ["COMPACT_EVERY", "RemoteLayout", "check_compact_every", "layout_of"]

COMPACT_EVERY = 10
"""The default number of files of changes after which a checkpoint may replace these files."""


@dataclass(frozen=True, slots=True)
class RemoteLayout:
    """The live directory of a stream, or of one store of `map_state`, on an object store.

    It implements :class:`~kstore_core.spark.live.layout.Layout`.
    """

    storage: Storage
    place: str
    compact_every: int = COMPACT_EVERY

    @classmethod
    def of(
        cls, storage: Storage, store: str = "", compact_every: int = COMPACT_EVERY
    ) -> RemoteLayout:
        """Return the live directory of a store of `map_state`.

        If ``store`` is empty, return the live directory of the stream that owns the root.
        """
        return cls(storage, f"{LIVE}/{store}" if store else LIVE, compact_every)

    def __str__(self) -> str:
        return f"{self.storage.name}/{self.place}"

    @property
    def unseen(self) -> str:
        """The cause, and the remedy, if a task and the driver see different states."""
        return (
            "The state was removed or created again after map_state was called; start the query "
            "again"
        )

    def prepare(self, shards: int) -> None:
        """Raise UnsupportedError if the server ignores the condition that a file must be new."""
        name = f"{self.place}/condition-{uuid.uuid4().hex}"
        try:
            check_conditions(self.storage, name)
        finally:
            self.storage.delete([name])

    def read(self, name: str) -> str | None:
        """Return the text of a file, or None if the file does not exist."""
        try:
            return self.storage.read(f"{self.place}/{name}").decode()
        except FileNotFoundError:
            return None

    def create(self, name: str, text: str) -> bool:
        """Create a file. Return False, and change nothing, if the file exists."""
        try:
            self.storage.put_new(f"{self.place}/{name}", text.encode())
        except FileExistsError:
            return False
        return True

    def names(self) -> list[str]:
        """Return the names of the entries of the directory."""
        return self.storage.names(self.place)

    def remove(self, names: Iterable[str]) -> None:
        """Remove files. A name without a file is skipped."""
        found = [f"{self.place}/{name}" for name in names]
        if found:
            self.storage.delete(found)

    def is_written(self, shard: int) -> bool:
        """Return True if a shard of a stream has a commit."""
        return bool(ShardCommits(self.storage, f"{self.place}/0_{shard}").numbers())

    def checkout(
        self,
        identity: str,
        folder: str,
        shard: int,
        engine: str,
        timeout_s: float,
        number: int = 0,
    ) -> AbstractContextManager[LiveShard]:
        """Return a context manager of a shard that one task changes."""
        from kstore_core.spark.remote.checkout import checked_out
        from kstore_core.spark.remote.copies import LocalCopy

        place = "/".join(part for part in (self.place, folder, f"0_{shard}") if part)
        state = hashlib.sha256(f"{identity} {self}/{folder}".encode()).hexdigest()[:40]
        copy = LocalCopy(state, f"0_{shard}")
        commits = ShardCommits(self.storage, place)
        return checked_out(commits, copy, engine, timeout_s, self.compact_every, number)


def layout_of(
    storage: Storage, store: str = "", compact_every: int = COMPACT_EVERY
) -> LiveLayout | RemoteLayout:
    """Return the live directory of a stream, or of a store of `map_state`, in a storage."""
    if storage.path is None:
        return RemoteLayout.of(storage, store, compact_every)
    return LiveLayout.of(storage.path, store)


def check_compact_every(given: int) -> None:
    """Raise SpecError if the argument ``compact_every`` is not an int of 1 or more."""
    if type(given) is not int or given < 1:
        raise SpecError(f"compact_every={given!r} is not an int of 1 or more")
