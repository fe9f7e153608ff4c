"""The checkout of a live shard from an object store, and the commit of its changes.

A checkout updates the copy on this machine to the newest commit. At the end of an epoch, the task
uploads the changes of the epoch as one file, or uploads a checkpoint if one is due. Then the task
writes the commit, a file that names the uploaded files. The storage accepts only one commit of each
number. A task of an earlier attempt therefore cannot commit after a newer attempt.
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

from kstore_core.discovery.registry import make_engine
from kstore_core.engine import Engine
from kstore_core.errors import CorruptionError, StateError
from kstore_core.spark.live.epochs import Epoch
from kstore_core.spark.remote.changes import apply_changes, decode_changes, encode_changes
from kstore_core.spark.remote.copies import LocalCopy, Marker, stamps_of
from kstore_core.spark.remote.recording import RecordingEngine
from kstore_core.spark.root.commits import ChangeFile, ShardCommit, ShardCommits
from kstore_core.spark.root.manifest import Shard
from kstore_core.spark.root.shard_files import Stamps, fetch_files, upload_files

__all__ = ["RemoteShard", "checked_out", "fetch_shard"]

_MOST = 10  # A checkpoint always replaces _MOST * compact_every files of changes.
_FETCHES = 16
_REMEDY = "Restore the file from a copy, or pass another root and a new checkpoint"


@dataclass(slots=True)
class RemoteShard:
    """A shard that one task has checked out; see :class:`~kstore_core.spark.live.shard.LiveShard`.

    Attributes
    ----------
    commits : ShardCommits
        The commits of the shard.
    copy : LocalCopy
        The copy of the shard on this machine, which this task has locked.
    engine : RecordingEngine
        The engine that records the changes of the task.
    compact_every : int
        The number of files of changes after which a checkpoint may replace the files.
    base : ShardCommit, optional
        The commit that the task continues, or None for a new shard.
    uploaded : mapping
        The stamps (inode, time and size) of the files of the newest checkpoint.
    is_current : bool
        True while the copy contains the state of the commit ``base``.
    is_filled : bool
        True if the copy contains a published shard, which no changes describe.
    document : int
        The number of the document that the driver has read; see ``document_name`` in
        :mod:`kstore_core.spark.map_state.sharding`.
    """

    commits: ShardCommits
    copy: LocalCopy
    engine: RecordingEngine
    compact_every: int
    base: ShardCommit | None = None
    uploaded: Stamps = field(default_factory=dict)
    is_current: bool = False
    is_filled: bool = False
    is_shared: bool = False
    document: int = 0

    @property
    def path(self) -> Path:
        """The state directory on this machine."""
        return self.copy.path

    @property
    def where(self) -> str:
        """The address of the shard."""
        return str(self.commits)

    @property
    def is_new(self) -> bool:
        """True if the shard has no commit."""
        return self.base is None

    def fill(self, published: Path) -> None:
        """Replace the copy by a published shard. The first commit then uploads a checkpoint."""
        self.copy.clear()
        shutil.copytree(published, self.path)
        self.is_filled = True

    def commit(self, epoch: Epoch) -> bool:
        """Upload the changes, and put the commit.

        The result and the errors are those of
        :meth:`~kstore_core.spark.live.shard.LiveShard.commit`.
        """
        if not self.engine.operations:
            return True
        self.is_current = False
        attempt = uuid.uuid4().hex[:12]
        number = 1 if self.base is None else self.base.number + 1
        commit, uploaded = self._uploaded(ShardCommit(number, epoch, attempt))
        winner = self.commits.put(commit)
        if winner.attempt == attempt:
            self.base, self.uploaded, self.is_current = commit, uploaded, True
            self.engine.operations.clear()
            return True
        self.check_unsealed(winner)
        if winner.epoch == epoch:
            return False
        raise StateError(
            f"{self.where} was changed by {winner.epoch} while this task applied {epoch}, so the "
            "task committed nothing. Run only one query at a time on a state"
        )

    def check_unsealed(self, newest: ShardCommit) -> None:
        """Raise StateError if a rescale allows only tasks with a later document to commit."""
        if newest.sealed > self.document:
            raise StateError(
                f"{self.where} was sealed by a rescale of the state, so the task committed "
                "nothing. If the rescale has ended, call map_state again, for a stream with the "
                "same checkpoint. If the rescale is running, wait for its end. If the rescale was "
                "killed, run it again, or undo it: call kstore_core.spark.rescale with the present "
                "number of shards"
            )

    def _uploaded(self, commit: ShardCommit) -> tuple[ShardCommit, Stamps]:
        """Upload the files of a commit, and return the commit with its files."""
        base = self.base
        changes = () if base is None else base.changes
        checkpoint = None if base is None else base.checkpoint
        data = encode_changes(self.engine.operations)
        storage, name = self.commits.storage, f"{commit.number:020}-{commit.attempt}"
        if self._is_due(len(data)):
            place = f"{self.commits.place}/checkpoints/{name}"
            files = upload_files(storage, self.path, place, checkpoint, self.uploaded)
            return replace(commit, checkpoint=Shard(0, place, files)), stamps_of(self.path)
        path = f"changes/{name}.arrow"
        with contextlib.suppress(FileExistsError):  # The client may have sent the request twice.
            storage.put_new(f"{self.commits.place}/{path}", data)
        entry = ChangeFile(path, len(data), hashlib.sha256(data).hexdigest())
        return replace(commit, checkpoint=checkpoint, changes=(*changes, entry)), self.uploaded

    def _is_due(self, size: int) -> bool:
        """Return True if a checkpoint must replace the changes.

        A checkpoint is due when the changes are at least as large as the checkpoint that they
        follow. So all checkpoints together are not much larger than all changes. A checkpoint is
        also due when the commit would name very many files.
        """
        if self.is_filled and self.base is None:
            return True
        base = self.base
        if base is None or len(base.changes) + 1 < self.compact_every:
            return False
        if len(base.changes) + 1 >= _MOST * self.compact_every:
            return True
        before = 0 if base.checkpoint is None else base.checkpoint.bytes
        return size + sum(change.bytes for change in base.changes) >= before


@contextlib.contextmanager
def checked_out(
    commits: ShardCommits,
    copy: LocalCopy,
    engine: str,
    timeout_s: float,
    compact_every: int,
    document: int = 0,
) -> Iterator[RemoteShard]:
    """Update the copy of a shard to the newest commit, and yield the shard.

    Raises EngineLockedError if another task on this machine uses the copy for ``timeout_s``
    seconds. Raises StateError if a rescale has sealed the shard, so that only tasks with a later
    document than ``document`` can commit. Raises CorruptionError if a file is missing or differs
    from its commit.
    """
    with copy.locked(timeout_s):
        inner = make_engine(engine)
        shard = RemoteShard(commits, copy, RecordingEngine(inner), compact_every, document=document)
        _bring(shard, inner)
        try:
            yield shard
        finally:
            # Without operations, the engine may have changed files, but not the state.
            if shard.base is not None and shard.is_current and not shard.engine.operations:
                copy.put_marker(Marker(shard.base.to_json(), shard.uploaded))


def _bring(shard: RemoteShard, engine: Engine) -> None:
    """Update the copy of a shard to the newest commit."""
    commits, copy = shard.commits, shard.copy
    marker = copy.take_marker()
    known = None if marker is None else ShardCommit.from_json(marker.commit, str(copy.path))
    newest = _newest(commits, known)
    if newest is not None:
        shard.check_unsealed(newest)
    shard.base = newest
    same = None
    if marker is not None and known is not None and newest is not None:
        count = len(known.changes)
        if newest.checkpoint == known.checkpoint and newest.changes[:count] == known.changes:
            same, shard.uploaded = newest.changes[count:], marker.uploaded
    if same is not None:
        _apply(commits, engine, copy.path, same)
    else:
        copy.clear()
        copy.remove_unused()
        if newest is not None:
            shard.uploaded = _fetched(commits, newest, engine, copy.path)
    shard.is_current = True


def fetch_shard(commits: ShardCommits, engine: Engine, path: Path) -> bool:
    """Copy the newest commit of a shard to the new directory ``path``.

    Return False, and make no directory, if nothing was written to the shard.
    """
    newest = _newest(commits, None)
    if newest is not None:
        _fetched(commits, newest, engine, path)
    return path.exists()


def _fetched(commits: ShardCommits, commit: ShardCommit, engine: Engine, path: Path) -> Stamps:
    """Fetch all files of a commit, and return the stamps of the files of its checkpoint."""
    stamps: Stamps = {}
    if commit.checkpoint is not None:
        stamps = fetch_files(commits.storage, commit.checkpoint, path, linked=False, remedy=_REMEDY)
    _apply(commits, engine, path, commit.changes)
    return stamps


def _newest(commits: ShardCommits, known: ShardCommit | None) -> ShardCommit | None:
    """Return the newest commit, or None if the shard has none.

    If a newer commit follows, a vacuum may remove this commit before the read. In this case, look
    again.
    """
    while True:
        numbers = commits.numbers(0 if known is None else known.number)
        if not numbers:
            if known is None:
                return None
            known = None  # The object store has lost commits, or the copy is of another state.
            continue
        try:
            return commits.read(numbers[-1])
        except FileNotFoundError:
            continue


def _apply(
    commits: ShardCommits, engine: Engine, path: Path, changes: Sequence[ChangeFile]
) -> None:
    """Fetch files of changes, check them, and apply them in order to a state directory."""
    if not changes:
        return  # An empty directory would look like a shard that was written.
    path.mkdir(exist_ok=True)

    def fetched(change: ChangeFile) -> tuple[str, bytes]:
        name = f"{commits.place}/{change.path}"
        where = f"{commits.storage.name}/{name}"
        try:
            data = commits.storage.read(name)
        except FileNotFoundError as error:
            raise CorruptionError(
                f"{where} is missing, but the newest commit of the shard names it. {_REMEDY}"
            ) from error
        if hashlib.sha256(data).hexdigest() != change.sha256:
            raise CorruptionError(
                f"{where} differs from its commit: the file has {len(data)} bytes and another "
                f"SHA-256 than {change.sha256}. {_REMEDY}"
            )
        return where, data

    with ThreadPoolExecutor(_FETCHES) as threads:
        apply_changes(
            engine,
            path,
            (
                operation
                for where, data in threads.map(fetched, changes)
                for operation in decode_changes(data, where)
            ),
        )
