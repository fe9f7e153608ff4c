"""A store's root directory: versions, attempts, and publishing a version exactly once.

::

    <root>/_kstore/<version>.json               a manifest; the greatest version is the newest
    <root>/attempts/<job>/<shard>-<attempt>/    what a task of a job uploaded

Nothing here changes once it is published. A version appears with the appearance of its manifest.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from kstore_core.directories import sync_directory
from kstore_core.errors import CommitConflictError, CorruptionError, StateError, UnsupportedError
from kstore_core.spark.manifest import File, Manifest

__all__ = ["Root"]

_MANIFESTS = "_kstore"
_ATTEMPTS = "attempts"
_NAME = re.compile(r"([0-9]{1,19})\.json")
_CHUNK = 1 << 20
# RocksDB's lock, its diary of the machine that wrote, and LMDB's table of who reads.
_NOT_DATA = re.compile(r"LOCK|LOG|LOG\.old\.[0-9]+|lock\.mdb")


@dataclass(frozen=True, slots=True)
class Root:
    """Where the versions of one partitioned store are kept.

    Attributes
    ----------
    path : Path
        An absolute directory, which need not exist yet.
    """

    path: Path

    @classmethod
    def at(cls, where: str | os.PathLike[str]) -> Root:
        """The root at a local path or a ``file:`` address.

        Raises
        ------
        UnsupportedError
            Another scheme.
        """
        text = os.fspath(where)
        if not text:
            raise ValueError("the root of a store is a path, not an empty string")
        address = urlsplit(text)
        if address.scheme == "file" and address.netloc in ("", "localhost"):
            text = unquote(address.path)
        elif re.match(r"[A-Za-z][A-Za-z0-9+.-]+:", text):
            raise UnsupportedError(
                f"{text!r}: stores are kept on local or mounted file systems (a path, or file:) so "
                "far; object stores (s3:, gs:, abfs:) and hdfs: come later, over fsspec"
            )
        return cls(Path(text).absolute())

    def versions(self) -> list[int]:
        """The published versions, ascending.

        Raises
        ------
        StateError
            There is a file where a directory should be.
        """
        manifests = self.path / _MANIFESTS
        try:
            names = [path.name for path in manifests.iterdir()]
        except FileNotFoundError:
            return []
        except NotADirectoryError:
            raise StateError(_not_a_directory(manifests)) from None
        return sorted(int(match[1]) for name in names if (match := _NAME.fullmatch(name)))

    def newest(self) -> Manifest | None:
        """The manifest of the newest version, or None where nothing was published yet."""
        versions = self.versions()
        return self.load(versions[-1]) if versions else None

    def load(self, version: int | None = None) -> Manifest:
        """The manifest of a version; of the newest for None.

        Raises
        ------
        StateError
            There is no such version, or its manifest cannot be read.
        TypeError
            The version is not an int.
        """
        if version is not None and (isinstance(version, bool) or not isinstance(version, int)):
            raise TypeError(
                f"version={version!r} is {type(version).__name__}, not int; versions are numbered "
                "1, 2, …, and None is the newest"
            )
        versions = self.versions()
        if not versions:
            raise StateError(
                f"{self.path} holds no store: there is no manifest in {self.path / _MANIFESTS}. "
                "Write one with kstore_core.spark.write_store"
            )
        if version is None:
            version = versions[-1]
        if version not in versions:
            raise StateError(
                f"{self.path} has no version {version}; it has {versions[0]} to {versions[-1]}"
            )
        where = self._manifest(version)
        return Manifest.from_json(where.read_text(encoding="utf-8"), str(where))

    def check_unused(self) -> None:
        """Refuse a directory without versions that somebody else uses.

        Raises
        ------
        StateError
            It holds other files than a root has.
        """
        try:
            names = {path.name for path in self.path.iterdir()}
        except FileNotFoundError:
            return
        except NotADirectoryError:
            raise StateError(_not_a_directory(self.path)) from None
        others = sorted(names - {_MANIFESTS, _ATTEMPTS})
        if others:
            raise StateError(
                f"{self.path} is not empty and holds no partitioned store: there is {others[0]!r}. "
                "Give an empty directory, or one that does not exist"
            )

    def publish(self, manifest: Manifest) -> None:
        """Make a version visible: put its manifest in place unless there is one.

        Raises
        ------
        CommitConflictError
            Another writer published this version first. Nothing was changed.
        """
        target = self._manifest(manifest.version)
        scratch = target.with_name(f".{manifest.version}-{manifest.job}.tmp")
        scratch.parent.mkdir(parents=True, exist_ok=True)
        for directory in (self.attempts(manifest.job), self.path / _ATTEMPTS, self.path):
            if directory.is_dir():
                sync_directory(directory)
        try:
            _write_new(scratch, manifest.to_json())
            try:
                os.link(scratch, target)
            except FileExistsError:
                raise
            except OSError:  # no hard links here: a reader may see the first half for a moment
                _write_new(target, manifest.to_json())
        except FileExistsError:
            raise CommitConflictError(
                f"{target} was published by another writer in the meantime, so nothing of this "
                "job was. Run it again to go on from that version"
            ) from None
        finally:
            scratch.unlink(missing_ok=True)
        sync_directory(target.parent)

    def attempts(self, job: str) -> Path:
        """Where the tasks of a job upload to."""
        return self.path / _ATTEMPTS / job

    def begin(self, job: str) -> None:
        """Make the directory that the tasks of ``job`` upload to."""
        self.attempts(job).mkdir(parents=True)

    def discard(self, job: str) -> None:
        """Remove what a job uploaded, however little of it is there. Never raises for that."""
        for _ in range(3):  # a task that is being cancelled may still add a file
            shutil.rmtree(self.attempts(job), ignore_errors=True)
        with contextlib.suppress(OSError):
            self.attempts(job).parent.rmdir()

    def keep_only(self, job: str, manifest: Manifest) -> None:
        """Remove the attempts of ``job`` that ``manifest`` does not refer to."""
        kept = {self.path / shard.path for shard in manifest.shards if shard.path is not None}
        for attempt in self.attempts(job).iterdir():
            if not any(path.is_relative_to(attempt) for path in kept):
                shutil.rmtree(attempt, ignore_errors=True)
        with contextlib.suppress(OSError):
            self.attempts(job).rmdir()  # where there was nothing to write

    def upload(self, source: Path, target: Path) -> tuple[File, ...]:
        """Copy a closed directory into an attempt; durable, and hashed on the way.

        Raises
        ------
        FileNotFoundError
            The job was discarded meanwhile.
        """
        target.parent.mkdir()  # not its parents: a discarded job stays discarded
        target.mkdir()
        files = []
        for directory, inner, names in os.walk(source):
            here = Path(directory).relative_to(source)
            for name in inner:
                (target / here / name).mkdir()
            files += [
                _copy(source / here / name, target / here / name, here / name)
                for name in names
                if not _NOT_DATA.fullmatch(name)
            ]
            sync_directory(target / here)
        sync_directory(target.parent)
        return tuple(sorted(files, key=lambda file: file.path))

    def fetch(self, path: str, files: tuple[File, ...], target: Path) -> None:
        """Copy a published shard to ``target``, checking every byte of it.

        Raises
        ------
        CorruptionError
            A file is missing, or is not what the manifest says.
        """
        source = self.path / path
        target.mkdir(parents=True)
        for file in files:
            place = target / file.path
            place.parent.mkdir(parents=True, exist_ok=True)
            try:
                copied = _copy(source / file.path, place, Path(file.path), durable=False)
            except FileNotFoundError:
                raise CorruptionError(f"{source / file.path} is missing") from None
            if copied != file:
                raise CorruptionError(
                    f"{source / file.path} is not what its manifest says: {copied.bytes} bytes, "
                    f"sha256 {copied.sha256}, instead of {file.bytes}, {file.sha256}"
                )

    def check(self, path: str, files: tuple[File, ...]) -> Path:
        """The directory of a published shard, after a look at the sizes of its files.

        Raises
        ------
        CorruptionError
            A file is missing or of another size.
        """
        source = self.path / path
        for file in files:
            try:
                size = (source / file.path).stat().st_size
            except FileNotFoundError:
                raise CorruptionError(f"{source / file.path} is missing") from None
            if size != file.bytes:
                raise CorruptionError(
                    f"{source / file.path} has {size} bytes, its manifest says {file.bytes}"
                )
        return source

    def _manifest(self, version: int) -> Path:
        return self.path / _MANIFESTS / f"{version}.json"


def _not_a_directory(path: Path) -> str:
    """What to say where a part of ``path`` is a file."""
    file = next(place for place in (path, *path.parents) if place.exists())
    return (
        f"{file} is a file, where a store has a directory; pass a root that is a directory, or one "
        "that does not exist yet"
    )


def _write_new(path: Path, text: str) -> None:
    with path.open("x", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _copy(source: Path, target: Path, name: Path, *, durable: bool = True) -> File:
    digest = hashlib.sha256()
    size = 0
    with source.open("rb") as reader, target.open("xb") as writer:
        while chunk := reader.read(_CHUNK):
            digest.update(chunk)
            writer.write(chunk)
            size += len(chunk)
        writer.flush()
        if durable:
            os.fsync(writer.fileno())
    return File(name.as_posix(), size, digest.hexdigest())
