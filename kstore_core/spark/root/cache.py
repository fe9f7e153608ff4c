"""The cache, on this machine, of published shards that are on object stores.

::

    <cache>/<digest>/       a copy of one shard's files, whose hashes were checked
    <cache>/<digest>.lock   the lock of the copy
    <cache>/<digest>.tmp/   an unfinished copy
    <cache>/files/<sha256>  an immutable file; each copy with this file has a hard link to it
    <cache>/live/           the copies of live shards; see kstore_core.spark.remote.copies

A reader of a copy holds a shared lock. A process that makes or removes a copy holds an exclusive
lock. The digest is computed from the hashes of the shard's files, so versions and roots with equal
shards use one copy. If an append has changed a cached shard, the new copy of the shard is made of
links to the cached immutable files, and only the other files are fetched.

If the copies together exceed ``KSTORE_SHARD_CACHE_BYTES``, copies without readers are removed, the
least recently used copy first. ``KSTORE_SHARD_CACHE`` sets the directory of the cache. By default,
the cache is in the directory for temporary files.
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
from kstore_core.spark.root.shard_files import fetch_files, sha256_of
from kstore_core.spark.root.storage.base import Storage, is_immutable

__all__ = ["cache_directory", "cached_shard", "lock_file"]

_DEFAULT_BYTES = 16 << 30


@contextlib.contextmanager
def cached_shard(storage: Storage, shard: Shard) -> Iterator[Path]:
    """Yield the directory of a local copy of a shard. The open context keeps the copy locked.

    Raise a CorruptionError if a file is missing from the root, or differs from the manifest.
    """
    cache = cache_directory()
    digest = _digest(shard)
    lock = _locked_copy(storage, shard, cache, digest)
    try:
        yield cache / digest
    finally:
        os.close(lock)


def cache_directory() -> Path:
    """Return the directory of the cache. If it is missing, create it for this user only."""
    name = os.environ.get("KSTORE_SHARD_CACHE")
    if not name:
        name = f"{tempfile.gettempdir()}/kstore-shards-{os.getuid()}"
    cache = Path(name)
    cache.mkdir(mode=0o700, parents=True, exist_ok=True)
    if cache.stat().st_uid != os.getuid():
        raise SpecError(
            f"the shard cache {cache} belongs to another user, who could change the cached shards; "
            "set KSTORE_SHARD_CACHE on every machine to a directory that belongs to your user"
        )
    return cache


def _max_bytes() -> int:
    text = os.environ.get("KSTORE_SHARD_CACHE_BYTES", str(_DEFAULT_BYTES))
    if not text.isdecimal():
        raise SpecError(
            f"the environment variable KSTORE_SHARD_CACHE_BYTES={text!r} is not a number of bytes"
        )
    return int(text)


def _digest(shard: Shard) -> str:
    files = [{**asdict(file), "at": None} for file in shard.files]
    return hashlib.sha256(json.dumps([shard.shard, files]).encode()).hexdigest()[:40]


def _locked_copy(storage: Storage, shard: Shard, cache: Path, digest: str) -> int:
    """Make the copy of a shard if it is missing, and return the descriptor of its shared lock."""
    copy, scratch = cache / digest, cache / f"{digest}.tmp"
    while True:
        lock = lock_file(cache / f"{digest}.lock", fcntl.LOCK_SH)
        if copy.is_dir():
            os.utime(lock)  # _make_room removes the copies with the oldest times.
            return lock
        os.close(lock)
        making = lock_file(cache / f"{digest}.lock", fcntl.LOCK_EX)
        try:
            if not copy.is_dir():
                _make_room(cache, shard.bytes, digest)
                shutil.rmtree(scratch, ignore_errors=True)  # may be left from a killed process
                try:
                    _fetch(storage, shard, cache / "files", scratch)
                    scratch.rename(copy)
                except BaseException:
                    shutil.rmtree(scratch, ignore_errors=True)
                    raise
        finally:
            # The loop takes the shared lock and looks again, because another process may remove
            # the copy between the two locks.
            os.close(making)


def _fetch(storage: Storage, shard: Shard, pool: Path, target: Path) -> None:
    """Make a copy of a shard. A file that another copy contains is linked, not fetched."""

    def there(file: File, place: Path) -> bool:
        if not is_immutable(file.path):
            return False
        pooled = pool / file.sha256
        try:
            os.link(pooled, place)
        except OSError:  # No copy contains the file.
            return False
        if sha256_of(place) == file.sha256:
            return True
        pooled.unlink(missing_ok=True)  # The cached file is damaged, so fetch the root's file.
        place.unlink()
        return False

    pool.mkdir(exist_ok=True)
    fetch_files(storage, shard, target, linked=False, there=there)
    for file in shard.files:
        if is_immutable(file.path):
            with contextlib.suppress(OSError):
                os.link(target / file.path, pool / file.sha256)


def lock_file(path: Path, operation: int) -> int:
    """Create the file ``path`` if it is missing, lock it, and return its descriptor."""
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
        os.close(descriptor)  # Another process has removed the lock file and its copy: try again.


def _make_room(cache: Path, size: int, keep: str) -> None:
    """Remove copies without readers until a new copy of ``size`` bytes fits.

    The least recently used copy is removed first. The copy with the digest ``keep`` stays.
    """
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
            descriptor = lock_file(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
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
                if file.stat().st_nlink == 1:  # No copy contains the file.
                    file.unlink()


def _size(directory: Path) -> int:
    total = 0
    for folder, _, names in os.walk(directory):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                total += Path(folder, name).stat().st_size
    return total
