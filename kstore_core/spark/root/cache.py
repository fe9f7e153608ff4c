"""Copies of published shards on this machine, for roots that are no directory of it.

::

    <cache>/<digest>/       the files of one shard, checked when they came
    <cache>/<digest>.lock   held shared by who reads it, alone by who makes or removes it
    <cache>/<digest>.tmp/   being made
    <cache>/files/<sha256>  a file of copies that no engine writes to, linked into each of them

The digest is of the files' hashes, so a shard that several versions or roots share is kept once;
and of a shard that went on from one that is here, only what is new is fetched.
Where copies take more than ``KSTORE_SHARD_CACHE_BYTES``, those that nobody reads go, the least
recently used first. The cache is at ``KSTORE_SHARD_CACHE``; where that is not set, in the directory
for temporary files.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from kstore_core.errors import SpecError
from kstore_core.spark.root.manifest import File, Shard
from kstore_core.spark.root.shard_files import fetch_files, is_immutable, sha256_of
from kstore_core.spark.root.storage.base import Storage

__all__ = ["cache_directory", "cached_shard"]

_DEFAULT_BYTES = 16 << 30


@contextlib.contextmanager
def cached_shard(storage: Storage, shard: Shard) -> Iterator[Path]:
    """A directory with a shard's files, which stays while this is open; fetched if need be.

    Raises
    ------
    CorruptionError
        A file is missing, or is not what the manifest says.
    """
    cache = cache_directory()
    digest = _digest(shard)
    held = _hold(storage, shard, cache, digest)
    try:
        yield cache / digest
    finally:
        os.close(held)


def cache_directory() -> Path:
    """Where copies are kept; made where it is missing, for this user alone."""
    name = os.environ.get("KSTORE_SHARD_CACHE")
    if not name:
        name = f"{tempfile.gettempdir()}/kstore-shards-{os.getuid()}"
    cache = Path(name)
    cache.mkdir(mode=0o700, parents=True, exist_ok=True)
    if cache.stat().st_uid != os.getuid():
        raise SpecError(
            f"{cache} belongs to another user, who could change the shards in it; set "
            "KSTORE_SHARD_CACHE to a directory of your own on every machine"
        )
    return cache


def _max_bytes() -> int:
    text = os.environ.get("KSTORE_SHARD_CACHE_BYTES", str(_DEFAULT_BYTES))
    if not text.isdecimal():
        raise SpecError(f"KSTORE_SHARD_CACHE_BYTES={text!r}; it is a number of bytes")
    return int(text)


def _digest(shard: Shard) -> str:
    files = [{**asdict(file), "at": None} for file in shard.files]
    return hashlib.sha256(json.dumps([shard.shard, files]).encode()).hexdigest()[:40]


def _hold(storage: Storage, shard: Shard, cache: Path, digest: str) -> int:
    """A file descriptor that holds the copy, which is there then."""
    copy, scratch = cache / digest, cache / f"{digest}.tmp"
    while True:
        held = _lock(cache / f"{digest}.lock", fcntl.LOCK_SH)
        if copy.is_dir():
            os.utime(held)  # the order of use
            return held
        os.close(held)
        making = _lock(cache / f"{digest}.lock", fcntl.LOCK_EX)
        try:
            if not copy.is_dir():
                _make_room(cache, shard.bytes, digest)
                shutil.rmtree(scratch, ignore_errors=True)  # of a process that was killed
                try:
                    _fetch(storage, shard, cache / "files", scratch)
                    scratch.rename(copy)
                except BaseException:
                    shutil.rmtree(scratch, ignore_errors=True)
                    raise
        finally:
            os.close(making)  # and hold it shared: it may have been removed in between


def _fetch(storage: Storage, shard: Shard, pool: Path, target: Path) -> None:
    """Make a copy of a shard; files that other copies have are linked."""

    def there(file: File, place: Path) -> bool:
        if not is_immutable(file):
            return False
        kept = pool / file.sha256
        try:
            os.link(kept, place)
        except OSError:  # it is not there, or not any longer
            return False
        if sha256_of(place) == file.sha256:
            return True
        kept.unlink(missing_ok=True)  # it was damaged here; the root's may be whole
        place.unlink()
        return False

    pool.mkdir(exist_ok=True)
    fetch_files(storage, shard, target, linked=False, there=there)
    for file in filter(is_immutable, shard.files):
        with contextlib.suppress(OSError):
            os.link(target / file.path, pool / file.sha256)


def _lock(path: Path, how: int) -> int:
    """A descriptor of a lock file that holds its lock, and is the one that is there now."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, how)
            with contextlib.suppress(FileNotFoundError):
                if os.fstat(descriptor).st_ino == path.stat().st_ino:
                    return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # whoever removed the copy removed the file


def _make_room(cache: Path, size: int, keep: str) -> None:
    """Remove copies that nobody reads, the least recently used first, until `size` fits."""
    copies = []
    total = size
    for lock in cache.glob("*.lock"):
        if lock.stem != keep:
            with contextlib.suppress(FileNotFoundError):
                copies.append((lock.stat().st_mtime_ns, _size(cache / lock.stem), lock))
    total += sum(taken for _, taken, _ in copies)
    limit = _max_bytes()
    for _, taken, lock in sorted(copies):
        if total <= limit:
            return
        try:
            held = _lock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        try:
            shutil.rmtree(cache / lock.stem, ignore_errors=True)
            shutil.rmtree(cache / f"{lock.stem}.tmp", ignore_errors=True)
            lock.unlink(missing_ok=True)
            total -= taken
        finally:
            os.close(held)
        for file in (cache / "files").glob("*"):
            with contextlib.suppress(FileNotFoundError):
                if file.stat().st_nlink == 1:  # of no copy any longer
                    file.unlink()


def _size(directory: Path) -> int:
    total = 0
    for folder, _, names in os.walk(directory):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                total += Path(folder, name).stat().st_size
    return total
