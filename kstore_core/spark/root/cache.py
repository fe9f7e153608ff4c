"""The cache of published shards on this machine, for roots on object stores.

::

    <cache>/<digest>/       the files of one shard, checked after the fetch
    <cache>/<digest>.lock   locked shared by readers, exclusively for making or removing the copy
    <cache>/<digest>.tmp/   a copy that is being made
    <cache>/files/<sha256>  an immutable file, linked into the copies that have it

The digest is of the files' hashes, so versions or roots that share a shard share its copy, and a
shard that went on from a cached one fetches only its new files. While copies take more than
``KSTORE_SHARD_CACHE_BYTES``, unread ones are removed, the least recently used first. The cache is
at ``KSTORE_SHARD_CACHE``, by default in the directory for temporary files.
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
    """A directory with a shard's files, which stays while the context is open.

    A CorruptionError if a file is missing, or differs from the manifest.
    """
    cache = cache_directory()
    digest = _digest(shard)
    lock = _locked_copy(storage, shard, cache, digest)
    try:
        yield cache / digest
    finally:
        os.close(lock)


def cache_directory() -> Path:
    """The directory of copies; made for this user alone if it is missing."""
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


def _locked_copy(storage: Storage, shard: Shard, cache: Path, digest: str) -> int:
    """Make the copy if it is missing; return the descriptor of its shared lock."""
    copy, scratch = cache / digest, cache / f"{digest}.tmp"
    while True:
        lock = _lock(cache / f"{digest}.lock", fcntl.LOCK_SH)
        if copy.is_dir():
            os.utime(lock)  # the order of use
            return lock
        os.close(lock)
        making = _lock(cache / f"{digest}.lock", fcntl.LOCK_EX)
        try:
            if not copy.is_dir():
                _make_room(cache, shard.bytes, digest)
                shutil.rmtree(scratch, ignore_errors=True)  # left by a killed process
                try:
                    _fetch(storage, shard, cache / "files", scratch)
                    scratch.rename(copy)
                except BaseException:
                    shutil.rmtree(scratch, ignore_errors=True)
                    raise
        finally:
            os.close(making)  # then lock it shared: it may have been removed in between


def _fetch(storage: Storage, shard: Shard, pool: Path, target: Path) -> None:
    """Make a copy of a shard; files that other copies have are linked."""

    def there(file: File, place: Path) -> bool:
        if not is_immutable(file):
            return False
        kept = pool / file.sha256
        try:
            os.link(kept, place)
        except OSError:  # it is missing
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


def _lock(path: Path, operation: int) -> int:
    """Lock the file that is at ``path`` now; return its descriptor."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, operation)
            with contextlib.suppress(FileNotFoundError):
                if os.fstat(descriptor).st_ino == path.stat().st_ino:
                    return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # the file was removed with its copy


def _make_room(cache: Path, size: int, keep: str) -> None:
    """Remove unread copies, the least recently used first, until ``size`` bytes fit."""
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
            descriptor = _lock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        try:
            shutil.rmtree(cache / lock.stem, ignore_errors=True)
            shutil.rmtree(cache / f"{lock.stem}.tmp", ignore_errors=True)
            lock.unlink(missing_ok=True)
            total -= taken
        finally:
            os.close(descriptor)
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
