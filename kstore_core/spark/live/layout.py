"""The live directory of a root: the shards that a stream writes to in place, and whose they are.

::

    <root>/live/stream.json     which query, from which checkpoint; written once
    <root>/live/stream.lock     held while that query runs
    <root>/live/0_<shard>/      the state directory of a shard

What readers see are versions, as of any root; nobody reads here.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from kstore_core.errors import SpecError, StateError
from kstore_core.system.directories import sync_directory

__all__ = ["LIVE", "LiveHome", "Stream", "check_not_streamed"]

LIVE = "live"
"""The directory in a root that a stream keeps its shards in."""

_DOCUMENT = "stream.json"
_LOCK = "stream.lock"
_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Stream:
    """What `stream.json` says: all that a restart has to find as it was.

    Attributes
    ----------
    query : str
        The id of the query, which stays with its checkpoint.
    checkpoint : str
        The checkpoint's location, for people.
    store : str
    shape : str
    engine : str
    partitions : int
    partition_by : str
        ``"key"`` or ``"partition"``.
    """

    query: str
    checkpoint: str
    store: str
    shape: str
    engine: str
    partitions: int
    partition_by: str

    @classmethod
    def read(cls, place: Path) -> Stream | None:
        """The document at `place`, None where there is none.

        Raises
        ------
        StateError
            It cannot be one, or is a newer kstore's.
        """
        try:
            document = json.loads(place.read_text(encoding="utf-8"))
            if document["format"] > _FORMAT:
                raise StateError(
                    f"{place} is of layout {document['format']}; this kstore reads up to "
                    f"{_FORMAT}. Upgrade kstore"
                )
            return cls(**{field.name: document[field.name] for field in fields(cls)})
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (KeyError, TypeError, ValueError) as error:
            raise StateError(
                f"{place} does not say which stream writes here ({type(error).__name__}: {error}). "
                f"Take {place.parent} away and start the stream with a new checkpoint: it goes on "
                "from the newest version"
            ) from error

    def check(self, given: Stream, home: Path) -> None:
        """Refuse a stream that is another than this one.

        Raises
        ------
        StateError
            Another query, or another checkpoint.
        SpecError
            The same, for another store or with other shards.
        """
        anew = (
            f"Stop it for good, take {home} away, and start with a new checkpoint: the stream goes "
            "on from the newest version"
        )
        if given.query and given.query != self.query:
            raise StateError(
                f"{home.parent} is written by the stream {self.query} of the checkpoint "
                f"{self.checkpoint}, and this one is {given.query} of {given.checkpoint}: two "
                f"checkpoints know nothing of each other. Go on from that one; or: {anew}"
            )
        if given.checkpoint != self.checkpoint and not given.query:
            raise StateError(
                f"{home.parent} is written by the stream of the checkpoint {self.checkpoint}, not "
                f"of {given.checkpoint}. Pass checkpoint={self.checkpoint!r}; or: {anew}"
            )
        fixed = ("store", "shape", "engine", "partitions", "partition_by")
        differences = [
            f"{name} is {getattr(self, name)!r} there and {getattr(given, name)!r} here"
            for name in fixed
            if getattr(self, name) != getattr(given, name)
        ]
        if differences:
            raise SpecError(
                f"{home.parent} is written by a stream with other shards: "
                f"{'; '.join(differences)}. Pass what is there, or use another root"
            )


@dataclass(frozen=True, slots=True)
class LiveHome:
    """The live directory of the root at a local path."""

    path: Path

    @classmethod
    def of(cls, root: Path) -> LiveHome:
        """That of a root."""
        return cls(root / LIVE)

    def shard(self, number: int) -> Path:
        """The state directory of a shard."""
        return self.path / f"0_{number}"

    def stream(self) -> Stream | None:
        """Which stream writes here; None for none yet.

        Raises
        ------
        StateError
            The document is damaged.
        """
        return Stream.read(self.path / _DOCUMENT)

    def bind(self, stream: Stream) -> Stream:
        """Make the root this stream's, with a place for each shard; or check that it is.

        Returns
        -------
        Stream
            As it was bound first.

        Raises
        ------
        StateError, SpecError
            It is another stream's; see :meth:`Stream.check`.
        """
        bound = self.stream()
        if bound is not None:
            bound.check(stream, self.path)
            return bound
        for number in range(stream.partitions):
            self.shard(number).mkdir(parents=True, exist_ok=True)
        text = json.dumps({"format": _FORMAT, **asdict(stream)}, indent=1) + "\n"
        scratch = self.path / f".{_DOCUMENT}.tmp"
        with scratch.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        scratch.rename(self.path / _DOCUMENT)
        sync_directory(self.path)
        sync_directory(self.path.parent)
        return stream

    def lock(self) -> StreamLock:
        """Keep other streams out until it is released.

        Raises
        ------
        StateError
            One is running.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        return StreamLock(self.path / _LOCK)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """The same, for a block."""
        lock = self.lock()
        try:
            yield
        finally:
            lock.release()


class StreamLock:
    """Held from construction until :meth:`release`, or until its process ends."""

    def __init__(self, path: Path) -> None:
        self._fd: int | None = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._fd, 64, 0).decode(errors="replace").strip()
            self.release()
            raise StateError(
                f"a stream writes to {path.parent.parent} already"
                + (f", of process {holder}" if holder else "")
                + "; stop it first, or use another root"
            ) from None
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Let the next one in. Releasing twice is fine."""
        if self._fd is not None:
            fd, self._fd = self._fd, None
            fcntl.flock(fd, fcntl.LOCK_UN)  # a fork may have a copy of it
            os.close(fd)


def check_not_streamed(root: Path) -> None:
    """Refuse to write a version of a root that a stream writes to.

    Raises
    ------
    StateError
        The stream's next version would go on from its own shards, without what was written.
    """
    home = LiveHome.of(root)
    bound = home.stream()
    if bound is not None:
        raise StateError(
            f"{root} is written by the stream of the checkpoint {bound.checkpoint}, whose next "
            "version would not contain this one. Write to another root; or stop the stream for "
            f"good and take {home.path} away"
        )
