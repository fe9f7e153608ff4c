"""The copies of live shards on this machine.

::

    <cache>/live/<state>/<shard>/        the state directory
    <cache>/live/<state>/<shard>.json    the commit whose state the directory contains
    <cache>/live/<state>/<shard>.lock    locked while a task uses the copy
    <cache>/live/<state>/<shard>.out/    an unfinished upload of a version

A task removes the file ``<shard>.json`` before it changes the directory. The task writes the file
again when its commit is on the object store. If the task was killed, or if its commit was refused,
the file is missing, and the next task on this machine makes a new copy. The file also contains the
stamp (inode, time and size) of each file of the directory, and the id of the current boot of the
machine. If a stamp has changed, the copy is not used. A copy of an earlier boot is not used either,
because a power failure may have lost a part of the copy.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kstore_core.errors import EngineLockedError
from kstore_core.spark.root.cache import cache_directory, lock_file
from kstore_core.spark.root.shard_files import Stamps, data_files

__all__ = ["LocalCopy", "Marker", "stamps_of"]

_POLL_S = 0.02
_UNUSED_S = 7 * 86_400.0
_BOOT = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class Marker:
    """The content of the file ``<shard>.json`` of a copy.

    Attributes
    ----------
    commit : str
        The text of the commit whose state the copy contains.
    uploaded : mapping
        The stamps of the files of the newest checkpoint, as they were at the upload or the fetch.
    """

    commit: str
    uploaded: Stamps


@dataclass(frozen=True, slots=True)
class LocalCopy:
    """The copy of the shard ``name`` of the state with the id ``state``."""

    state: str
    name: str

    @property
    def path(self) -> Path:
        """The state directory."""
        return cache_directory() / "live" / self.state / self.name

    @contextlib.contextmanager
    def locked(self, timeout_s: float) -> Iterator[None]:
        """Return a context manager that holds the lock of the copy.

        Raises EngineLockedError if another task holds the lock for ``timeout_s`` seconds.
        """
        path = self._beside("lock")
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        until = time.monotonic() + timeout_s
        while True:
            try:
                descriptor = lock_file(path, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= until:
                    raise EngineLockedError(
                        f"another task on this machine uses the copy {self.path} of a shard; wait "
                        "until the task has ended"
                    ) from None
                time.sleep(_POLL_S)
        try:
            os.utime(descriptor)
            yield
        finally:
            os.close(descriptor)

    def take_marker(self) -> Marker | None:
        """Remove and return the marker, or return None if the copy must not be used."""
        place = self._beside("json")
        try:
            document = json.loads(place.read_text())
            marker = Marker(document["commit"], _stamps(document["uploaded"]))
            usable = document["boot"] == _boot() and _stamps(document["stamps"]) == stamps_of(
                self.path
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None
        finally:
            place.unlink(missing_ok=True)
        return marker if usable else None

    def put_marker(self, marker: Marker) -> None:
        """Write the marker. The state directory must be closed."""
        document = {
            "boot": _boot(),
            "commit": marker.commit,
            "stamps": stamps_of(self.path),
            "uploaded": dict(marker.uploaded),
        }
        scratch = self._beside("tmp")
        scratch.write_text(json.dumps(document))
        scratch.rename(self._beside("json"))

    def clear(self) -> None:
        """Remove the state directory. The caller must hold the lock."""
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self.path)

    def remove_unused(self) -> None:
        """Remove the copies on this machine that no task has used for a week."""
        before = time.time() - _UNUSED_S
        for path in (cache_directory() / "live").glob("*/*.lock"):
            with contextlib.suppress(OSError):  # A task uses the copy, or has removed it.
                if path.stat().st_mtime >= before:
                    continue
                descriptor = lock_file(path, fcntl.LOCK_EX | fcntl.LOCK_NB)
                try:
                    for suffix in ("", ".out"):
                        shutil.rmtree(path.with_suffix(suffix), ignore_errors=True)
                    path.with_suffix(".json").unlink(missing_ok=True)
                    path.unlink()
                finally:
                    os.close(descriptor)
                path.parent.rmdir()

    def _beside(self, suffix: str) -> Path:
        return self.path.with_name(f"{self.name}.{suffix}")


def stamps_of(directory: Path) -> dict[str, tuple[int, int, int]]:
    """Return the inode, the time of the last write and the size of each file of a shard."""
    found = {}
    for here, inner in data_files(directory):
        stat = here.stat()
        found[inner] = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
    return found


def _stamps(given: dict[str, Any]) -> Stamps:
    return {name: (stamp[0], stamp[1], stamp[2]) for name, stamp in given.items()}


def _boot() -> str:
    """Return the id of the current boot, or of this process if the system has no such id."""
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return f"process {os.getpid()} of {os.getppid()}"
