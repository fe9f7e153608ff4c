"""Roots on local and mounted file systems: plain files, hard links, and fsync where it counts."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kstore_core.directories import make_directory, sync_directory
from kstore_core.errors import StateError, StorageFullError, StorageUnavailableError
from kstore_core.spark.storage import Entry

__all__ = ["FULL", "LocalFiles"]

FULL = (errno.ENOSPC, errno.EDQUOT)
"""The errors of a disk that is full."""


@dataclass(frozen=True, slots=True)
class LocalFiles:
    """The files below a directory, which need not exist yet.

    Attributes
    ----------
    path : Path
        Absolute.
    """

    path: Path

    @property
    def name(self) -> str:
        return str(self.path)

    def names(self, directory: str) -> list[str]:
        place = self.path / directory
        try:
            with _saying(place):
                return sorted(entry.name for entry in place.iterdir())
        except FileNotFoundError:
            return []
        except NotADirectoryError:
            raise StateError(_not_a_directory(place)) from None

    def files(self, directory: str) -> list[Entry]:
        found = []
        for folder, _, names in os.walk(self.path / directory):
            for name in names:
                place = Path(folder, name)
                with contextlib.suppress(FileNotFoundError):  # deleted since
                    stat = place.stat()
                    inner = place.relative_to(self.path).as_posix()
                    found.append(Entry(inner, stat.st_size, stat.st_mtime_ns // 1_000_000))
        return found

    def size(self, name: str) -> int:
        with _saying(self.path / name):
            return (self.path / name).stat().st_size

    def read(self, name: str) -> bytes:
        try:
            with _saying(self.path / name):
                return (self.path / name).read_bytes()
        except IsADirectoryError:
            raise StateError(
                f"{self.path / name} is a directory, where a file should be; move it away"
            ) from None

    def put_new(self, name: str, data: bytes) -> None:
        target = self.path / name
        scratch = target.with_name(f".{target.name}-{uuid.uuid4().hex}.tmp")
        with _saying(target):
            try:
                make_directory(target.parent, synced=True)
            except FileExistsError:
                raise StateError(
                    f"{target.parent} cannot be made: there is a file in its way, or a link that "
                    "leads nowhere, as to a disk that is not mounted"
                ) from None
            try:
                _write_new(scratch, data)
                try:
                    os.link(scratch, target)
                except FileExistsError:
                    raise
                except OSError:  # no hard links here: a reader may see the first half for a moment
                    _write_new(target, data)
            finally:
                scratch.unlink(missing_ok=True)
            sync_directory(target.parent)

    def upload(self, files: Mapping[str, Path]) -> None:
        for name, source in files.items():
            target = self.path / name
            with _saying(target):
                target.parent.mkdir(parents=True, exist_ok=True)
                with source.open("rb") as reader, target.open("xb") as writer:
                    shutil.copyfileobj(reader, writer, 1 << 20)
                    writer.flush()
                    os.fsync(writer.fileno())

    def reuse(self, old: str, new: str) -> str:
        target = self.path / new
        with _saying(target):
            target.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(self.path / old, target)
        except FileNotFoundError:
            raise
        except OSError:  # no hard links here, or too many of this file
            self.upload({new: self.path / old})
        return new

    def download(self, files: Mapping[str, Path], *, linked: bool = False) -> None:
        for name, target in files.items():
            source = self.path / name
            if linked:
                try:
                    os.link(source, target)
                    continue
                except FileNotFoundError:
                    raise
                except OSError:  # another file system
                    pass
            with _saying(target):
                shutil.copyfile(source, target)

    def settle(self, directory: str) -> None:
        place = self.path / directory
        with _saying(place):
            for folder, _, _ in os.walk(place):
                sync_directory(Path(folder))
            for above in place.parents:
                if above.is_relative_to(self.path) and above.is_dir():
                    sync_directory(above)

    def delete(self, names: Sequence[str]) -> None:
        for name in names:
            with contextlib.suppress(FileNotFoundError), _saying(self.path / name):
                (self.path / name).unlink()
                self._prune(self.path / name)

    def delete_tree(self, directory: str) -> None:
        with contextlib.suppress(FileNotFoundError), _saying(self.path / directory):
            shutil.rmtree(self.path / directory)
            self._prune(self.path / directory)

    def _prune(self, place: Path) -> None:
        """Remove the directories above `place` that are empty now: they are none."""
        for folder in place.parents:
            if folder == self.path or not folder.is_relative_to(self.path):
                return
            try:
                folder.rmdir()
            except OSError:
                return


@contextlib.contextmanager
def _saying(place: Path) -> Iterator[None]:
    """Have what goes wrong on the way be said in our own words."""
    try:
        yield
    except (FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError):
        raise
    except OSError as error:
        if error.errno in FULL:
            raise StorageFullError(
                f"no space left for {place}: {error.strerror}. Make room there and run the job "
                "again; what was published before is intact"
            ) from error
        raise StorageUnavailableError(
            f"{place} cannot be used by this process (user {os.getuid()}): {error.strerror}. Mend "
            "that on every machine that has a part in the job, or pass another root; what was "
            "published before is intact"
        ) from error


def _write_new(path: Path, data: bytes) -> None:
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _not_a_directory(path: Path) -> str:
    """What to say where a part of ``path`` is a file."""
    file = next(place for place in (path, *path.parents) if place.exists())
    return (
        f"{file} is a file, where a store has a directory; pass a root that is a directory, or one "
        "that does not exist yet"
    )
