"""Transfer of a shard's files between a root and a local directory, with checks of their hashes.

An append starts from the files of the previous version. Most files stay unchanged, because RocksDB
never changes a table file. An unchanged file is not uploaded again. On a local root, the file is
linked into the directory of the new attempt. On an object store, the manifest names the file of the
older attempt.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from kstore_core.errors import CorruptionError
from kstore_core.spark.root.manifest import File, Shard
from kstore_core.spark.root.storage.base import Storage, is_immutable

__all__ = [
    "Stamps",
    "data_files",
    "fetch_files",
    "is_data",
    "sha256_of",
    "shard_in_place",
    "unchanged",
    "upload_files",
]

Stamps = Mapping[str, tuple[int, int, int]]
"""The stamp of each fetched file by name: inode, time of the last write in ns, and size in bytes.

A file with an equal stamp has not changed since the fetch.
"""

REMEDY = "Read another version of the store, or write the store again with mode='overwrite'"

_NOT_DATA = re.compile(r"LOCK|LOG|LOG\.old\.[0-9]+|lock\.mdb")
"""The names of files without shard data: RocksDB's lock and text logs, and LMDB's lock file."""


def upload_files(
    storage: Storage,
    source: Path,
    place: str,
    parent: Shard | None = None,
    stamps: Stamps | None = None,
) -> tuple[File, ...]:
    """Copy the local directory ``source`` durably to the new directory ``place`` of the storage.

    ``source`` must be closed by its engine, and its table files must not change afterwards, because
    a local root may get hard links to them. If ``source`` was fetched from a published shard, pass
    that shard as ``parent`` and the result of :func:`fetch_files` as ``stamps``. The upload then
    omits the files that have not changed since the fetch.
    """
    known = {} if parent is None else {file.path: file for file in parent.files}
    stamps = stamps or {}
    files, fresh = [], {}
    for here, inner in data_files(source):
        target = f"{place}/{inner}"
        old = known.get(inner)
        if parent is not None and old is not None and stamps.get(inner) == _stamp(here):
            reused = storage.reuse(parent.place_of(old), target)
            at = None if reused == target else reused
            files.append(File(inner, old.bytes, old.sha256, at))
        else:
            fresh[target] = here
            files.append(File(inner, here.stat().st_size, sha256_of(here)))
    storage.upload(fresh)
    storage.settle(place)
    return tuple(sorted(files, key=lambda file: file.path))


def unchanged(directory: Path, shard: Shard) -> Stamps:
    """Return the stamps of the local files that are equal to the files of a published shard.

    Only files that the engines never change are compared.
    """
    found = {}
    for file in shard.files:
        here = directory / file.path
        if not is_immutable(file.path) or not here.is_file():
            continue
        if here.stat().st_size == file.bytes and sha256_of(here) == file.sha256:
            found[file.path] = _stamp(here)
    return found


def data_files(directory: Path) -> Iterator[tuple[Path, str]]:
    """Yield the path and the relative path of each data file of a shard in a directory."""
    for folder, _, names in os.walk(directory):
        for name in names:
            if is_data(name):
                here = Path(folder, name)
                yield here, here.relative_to(directory).as_posix()


def is_data(name: str) -> bool:
    """Return True if a file of this name is shard data. Do not pass the name of a directory."""
    return not _NOT_DATA.fullmatch(name)


def fetch_files(
    storage: Storage,
    shard: Shard,
    target: Path,
    *,
    linked: bool = True,
    there: Callable[[File, Path], bool] = lambda file, place: False,
    remedy: str = REMEDY,
) -> Stamps:
    """Copy a published shard to the new local directory ``target``, and check every byte.

    If ``linked`` is true, immutable files may become hard links to the files of the root. For each
    file, the function calls ``there`` with the file and the path to create. The result must be True
    if ``there`` has created the file, and False if the function must fetch the file from the
    storage. ``remedy`` is the advice at the end of an error.

    Raise a CorruptionError if a file is missing, or differs from the manifest.
    """
    target.mkdir(parents=True)
    for file in shard.files:
        (target / file.path).parent.mkdir(parents=True, exist_ok=True)
    files = {
        shard.place_of(file): target / file.path
        for file in shard.files
        if not there(file, target / file.path)
    }
    try:
        storage.download(files, linked=linked)
    except FileNotFoundError as error:
        raise CorruptionError(
            f"{storage.name}: a file of shard {shard.shard} is missing: {error}. {remedy}"
        ) from error
    for file in shard.files:
        here = target / file.path
        size, sha256 = here.stat().st_size, sha256_of(here)
        if (size, sha256) != (file.bytes, file.sha256):
            raise CorruptionError(
                f"{storage.name}/{shard.place_of(file)} differs from its manifest: the file has "
                f"{size} bytes and the SHA-256 {sha256}, and the manifest says {file.bytes} bytes "
                f"and {file.sha256}. {remedy}"
            )
    return {file.path: _stamp(target / file.path) for file in shard.files}


@contextlib.contextmanager
def shard_in_place(storage: Storage, shard: Shard) -> Iterator[Path]:
    """Check the sizes of a published shard's files, and yield the shard's local directory.

    Raise a CorruptionError if a file is missing, if the size of a file differs from the manifest,
    or if the directory contains a symbolic link.
    """
    assert storage.path is not None
    assert shard.path is not None
    there = {entry.name: entry for entry in storage.files(shard.path)}
    for name in (entry.name for entry in there.values() if entry.is_link):
        storage.size(name)  # This raises an error that names the target of the link.
    for file in shard.files:
        place = shard.place_of(file)
        try:
            size = there[place].bytes if place in there else storage.size(place)
        except FileNotFoundError:
            raise CorruptionError(
                f"{storage.name}/{place} is missing. If a vacuum has removed this version of the "
                "store, read the newest version; if the file was lost, read any other version"
            ) from None
        if size != file.bytes:
            raise CorruptionError(
                f"{storage.name}/{place} has {size} bytes, not {file.bytes} as in its manifest. "
                "Read another version of the store, or write the store again with mode='overwrite'"
            )
    yield storage.path / shard.path


def _stamp(path: Path) -> tuple[int, int, int]:
    stat = path.stat()
    return stat.st_ino, stat.st_mtime_ns, stat.st_size


def sha256_of(path: Path) -> str:
    """Return the hexadecimal SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
