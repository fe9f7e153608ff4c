"""Roots on local and mounted file systems, which use plain files, hard links, and fsync."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path, PurePosixPath

from kstore_core.errors import (
    CorruptionError,
    InconsistentStateError,
    StateError,
    StorageFullError,
    StorageUnavailableError,
)
from kstore_core.spark.root.storage.base import DISK_FULL, Entry, is_immutable, scratch_name
from kstore_core.system.directories import make_directory, sync_directory

__all__ = ["LocalFiles", "translating_os_errors"]


@dataclass(frozen=True, slots=True)
class LocalFiles:
    """The files below an absolute path. The directory need not exist yet."""

    path: Path

    @property
    def name(self) -> str:
        return str(self.path)

    def names(self, directory: str, *, after: str = "") -> list[str]:
        place = self._place(directory)
        try:
            with translating_os_errors(place):
                return sorted(entry.name for entry in place.iterdir() if entry.name > after)
        except FileNotFoundError:
            return []
        except NotADirectoryError:
            file = next(above for above in (place, *place.parents) if above.exists())
            raise StateError(
                f"{file} is a file, not a directory; pass as root a directory, or a path that does "
                "not exist yet"
            ) from None

    def files(self, directory: str) -> list[Entry]:
        found = []
        for folder, folders, names in os.walk(self._place(directory)):
            links = [name for name in folders if Path(folder, name).is_symlink()]
            for name in (*names, *links):
                place = Path(folder, name)
                with contextlib.suppress(FileNotFoundError):  # Another process may delete the file.
                    seen = place.lstat()
                    found.append(
                        Entry(
                            place.relative_to(self.path).as_posix(),
                            seen.st_size,
                            seen.st_mtime_ns // 1_000_000,
                            stat.S_ISLNK(seen.st_mode),
                            (seen.st_dev, seen.st_ino),
                        )
                    )
        return found

    def size(self, name: str) -> int:
        place = self._place(name)
        with translating_os_errors(place):
            return place.stat().st_size

    def read(self, name: str) -> bytes:
        place = self._place(name)
        with translating_os_errors(place), _open_regular(place) as file:
            return file.read()

    def digest(self, name: str) -> tuple[int, str]:
        place = self._place(name)
        with translating_os_errors(place), _open_regular(place) as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
            return file.tell(), found

    def put_new(self, name: str, data: bytes) -> None:
        target = self._place(name)
        scratch = target.with_name(scratch_name(target.name))
        with translating_os_errors(target):
            try:
                make_directory(target.parent, synced=True)
            except FileExistsError:
                raise StateError(
                    f"{target.parent} cannot be created, because its path contains a file, or a "
                    "broken link such as a link to a disk that is not mounted. Mount the disk, "
                    "remove the file or link, or pass another root"
                ) from None
            try:
                _write_new(scratch, data)
                try:
                    os.link(scratch, target)
                except FileExistsError:
                    raise
                except OSError:
                    # This file system has no hard links, so the file is written in place, and a
                    # concurrent reader may see an incomplete file.
                    _write_new(target, data)
            finally:
                scratch.unlink(missing_ok=True)
            sync_directory(target.parent)

    def upload(self, files: Mapping[str, Path]) -> None:
        for name, source in files.items():
            target = self._place(name)
            with translating_os_errors(target):
                target.parent.mkdir(parents=True, exist_ok=True)
                if is_immutable(name) and _linked(source, target):
                    with target.open("rb") as file:
                        os.fsync(file.fileno())
                else:
                    _copy(source, target)

    def reuse(self, old: str, new: str) -> str:
        source, target = self._place(old), self._place(new)
        with translating_os_errors(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            if not _linked(source, target):
                _copy(source, target)
        return new

    def download(self, files: Mapping[str, Path], *, linked: bool = False) -> None:
        for name, target in files.items():
            source = self._place(name)
            if linked and is_immutable(name) and _linked(source, target):
                continue
            with translating_os_errors(target):
                shutil.copyfile(source, target)

    def settle(self, directory: str) -> None:
        place = self._place(directory)
        with translating_os_errors(place):
            for folder, _, _ in os.walk(place):
                sync_directory(Path(folder))
            for above in place.parents:
                if above.is_relative_to(self.path) and above.is_dir():
                    sync_directory(above)

    def delete(self, names: Sequence[str]) -> None:
        for name in names:
            place = self._place(name, itself=False)
            with contextlib.suppress(FileNotFoundError), translating_os_errors(place):
                place.unlink()
                self._prune(place)

    def delete_tree(self, directory: str) -> None:
        place = self._place(directory)
        with contextlib.suppress(FileNotFoundError), translating_os_errors(place):
            shutil.rmtree(place)
            self._prune(place)

    def _place(self, name: str, *, itself: bool = True) -> Path:
        """Return the path of a file; raise a CorruptionError for a symbolic link below the root.

        If ``itself`` is false, the file itself may be a link, but no directory above it may be one.
        """
        parts = PurePosixPath(name).parts
        here = self.path
        for part in parts if itself else parts[:-1]:
            here /= part
            with translating_os_errors(here):
                target = here.readlink() if here.is_symlink() else None
            if target is not None:
                raise CorruptionError(
                    f"{here} is a symbolic link to {target}, but every file and directory of a "
                    "root must be in the root itself. Replace the link with a copy of its target, "
                    "or read another root"
                )
        return self.path / name

    def _prune(self, place: Path) -> None:
        """Remove the empty directories above ``place``."""
        for folder in place.parents:
            if folder == self.path or not folder.is_relative_to(self.path):
                return
            try:
                folder.rmdir()
            except OSError:
                return


def _linked(source: Path, target: Path) -> bool:
    """Create a hard link to ``source`` if possible, and return True if it was created.

    Return False if the file systems differ or have no hard links, or if the file has too many.
    """
    try:
        os.link(source, target)
    except (FileNotFoundError, FileExistsError):
        raise
    except OSError:
        return False
    return True


def _copy(source: Path, target: Path) -> None:
    """Copy a file durably to the new path ``target``."""
    with source.open("rb") as reader, target.open("xb") as writer:
        shutil.copyfileobj(reader, writer, 1 << 20)
        writer.flush()
        os.fsync(writer.fileno())


@contextlib.contextmanager
def translating_os_errors(place: Path) -> Iterator[None]:
    """Translate the OSErrors of a full or unusable disk into kstore errors."""
    try:
        yield
    except (FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError):
        raise
    except OSError as error:
        if error.errno in DISK_FULL:
            raise StorageFullError(
                f"no space left for {place}: {error.strerror}. Free some space and run the job "
                "again; published versions are intact"
            ) from error
        raise StorageUnavailableError(
            f"{place} cannot be used by this process (user {os.getuid()}): {error.strerror}. "
            "Correct the cause on the driver and every worker, or pass another root; published "
            "versions are intact"
        ) from error


@contextlib.contextmanager
def _open_regular(place: Path) -> Iterator[BufferedReader]:
    """Open a regular file for reading. Raise an error for a named pipe at once, without waiting."""
    descriptor = os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            kind = "a directory" if stat.S_ISDIR(mode) else "a special file"
            raise InconsistentStateError(
                f"{place} is {kind}, not a regular file; move it out of the root"
            )
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            yield file
    finally:
        os.close(descriptor)


def _write_new(path: Path, data: bytes) -> None:
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
