"""Publishes a live shard in a version, and starts a live shard from a version.

The engine copies an open database as of its last commit. It links RocksDB tables, which never
change. A file that the version before has already keeps its hash.
"""

from __future__ import annotations

import dataclasses
import re
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from kstore_core.spark.root.manifest import File, Shard
from kstore_core.spark.root.shard_files import data_files, sha256_of

if TYPE_CHECKING:
    from kstore_core.spark.root.root import Root
    from kstore_core.state import StateDirectory

__all__ = ["begin_from", "epoch_of", "is_job_of", "job_of", "publish_shard"]

_JOB = re.compile(r"stream-(.+)-([0-9]+)")


def job_of(query: str, epoch: int) -> str:
    """Return the name of the job that publishes an epoch."""
    return f"stream-{query}-{epoch}"


def epoch_of(query: str, job: str) -> int | None:
    """Return the epoch that a job of this query published; None for a job of another writer."""
    match = _JOB.fullmatch(job)
    return int(match[2]) if match and match[1] == query else None


def is_job_of(query: str, path: str) -> bool:
    """Return True if a job of this query published the shard at ``path``."""
    return any(epoch_of(query, part) is not None for part in path.split("/"))


def begin_from(root: Root, base: Shard, path: Path) -> None:
    """Copy a published shard to an empty directory, unless another attempt was faster."""
    scratch = path.with_name(f".{path.name}-{uuid.uuid4().hex}")
    try:
        with root.local_shard(base) as published:
            shutil.copytree(published, scratch)
        scratch.rename(path)
    except OSError:
        if not any(path.iterdir()):
            raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def publish_shard(root: Root, job: str, state: StateDirectory, done: Shard, before: Shard) -> Shard:
    """Copy an open, committed shard into an attempt of a job; return it with its path and files.

    ``before`` is the shard of the newest version. A FileNotFoundError if the job was discarded.
    """
    name = state.path.name
    attempt = root.path / root.attempts(job) / f"{done.shard}-{uuid.uuid4().hex[:12]}"
    attempt.mkdir()  # not its parents: a discarded job stays discarded
    place = attempt / name
    state.checkpoint(place)
    older = None if before.path is None else root.path / before.path
    described = _described(place, older, {file.path: file for file in before.files})
    files = tuple(sorted(described, key=lambda file: file.path))
    return dataclasses.replace(done, path=place.relative_to(root.path).as_posix(), files=files)


def _described(place: Path, older: Path | None, known: dict[str, File]) -> Iterator[File]:
    for here, inner in data_files(place):
        old = known.get(inner)
        if old is not None and older is not None and _same(here, older / inner):
            yield old
        else:
            yield File(inner, here.stat().st_size, sha256_of(here))


def _same(here: Path, there: Path) -> bool:
    try:
        return here.samefile(there)
    except FileNotFoundError:
        return False
