"""The cache of published shards on this machine, for roots on object stores.

::

    <cache>/<digest>/       a copy: the files of one shard, checked after the fetch
    <cache>/<digest>.lock   locked shared by readers, exclusively to make or remove the copy
    <cache>/<digest>.tmp/   an unfinished copy
    <cache>/files/<sha256>  an immutable file, linked into the copies that contain it

The digest is a hash of the files' hashes, so versions or roots that share a shard share its copy. A
shard that continues a cached shard fetches only its new files. If copies exceed
``KSTORE_SHARD_CACHE_BYTES``, copies without readers are removed, the least recently used first. The
cache is at ``KSTORE_SHARD_CACHE``, by default in the directory for temporary files.
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
    """A directory with a shard's files, locked while the context is open.

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
    """Return the directory of copies; made for this user only if it is missing."""
    name = os.environ.get("KSTORE_SHARD_CACHE")
    if not name:
        name = f"{tempfile.gettempdir()}/kstore-shards-{os.getuid()}"
    cache = Path(name)
    cache.mkdir(mode=0o700, parents=True, exist_ok=True)
    if cache.stat().st_uid != os.getuid():
        raise SpecError(
            f"{cache} belongs to another user, who could change its shards; set "
            "KSTORE_SHARD_CACHE on every machine to a directory of your user"
        )
    return cache


def _max_bytes() -> int:
    text = os.environ.get("KSTORE_SHARD_CACHE_BYTES", str(_DEFAULT_BYTES))
    if not text.isdecimal():
        raise SpecError(f"KSTORE_SHARD_CACHE_BYTES={text!r} is not a number of bytes")
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
            os.close(making)  # the loop locks it shared: it may have been removed in between


def _fetch(storage: Storage, shard: Shard, pool: Path, target: Path) -> None:
    """Make a copy of a shard; files in other copies are linked."""

    def there(file: File, place: Path) -> bool:
        if not is_immutable(file):
            return False
        pooled = pool / file.sha256
        try:
            os.link(pooled, place)
        except OSError:  # it is missing
            return False
        if sha256_of(place) == file.sha256:
            return True
        pooled.unlink(missing_ok=True)  # damaged here; the file in the root may be sound
        place.unlink()
        return False

    pool.mkdir(exist_ok=True)
    fetch_files(storage, shard, target, linked=False, there=there)
    for file in filter(is_immutable, shard.files):
        with contextlib.suppress(OSError):
            os.link(target / file.path, pool / file.sha256)


def _lock(path: Path, operation: int) -> int:
    """Lock the file at ``path``; return its descriptor."""
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
    """Remove copies without readers, the least recently used first, until ``size`` bytes fit."""
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
                if file.stat().st_nlink == 1:  # in no copy
                    file.unlink()


def _size(directory: Path) -> int:
    total = 0
    for folder, _, names in os.walk(directory):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                total += Path(folder, name).stat().st_size
    return total
