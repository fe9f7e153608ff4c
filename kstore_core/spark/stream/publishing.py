"""Functions that publish a live shard in a version, or start a live shard from a version.

To publish, the engine copies an open database as it was at its last commit. RocksDB's table files
never change, so the engine only makes hard links to them. If the previous version has the same
file, the file's hash is taken from that version.
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
    """Return the name of the job that publishes an epoch of a query."""
    return f"stream-{query}-{epoch}"


def epoch_of(query: str, job: str) -> int | None:
    """Return the epoch that a job published, or None if the job is not one of this query."""
    match = _JOB.fullmatch(job)
    return int(match[2]) if match and match[1] == query else None


def is_job_of(query: str, path: str) -> bool:
    """Return True if a job of this query published the shard at ``path``."""
    return any(epoch_of(query, part) is not None for part in path.split("/"))


def begin_from(root: Root, base: Shard, path: Path) -> None:
    """Copy the published shard ``base`` to the empty directory ``path``.

    If another attempt of the task has filled the directory already, leave it unchanged.
    """
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
    """Copy an open shard to the files of a job, and return ``done`` with the copy's path and files.

    All rows of the shard must be committed. ``before`` is the same shard in the newest version.
    Raises FileNotFoundError if the job was discarded.
    """
    name = state.path.name
    attempt = root.path / root.attempts(job) / f"{done.shard}-{uuid.uuid4().hex[:12]}"
    attempt.mkdir()  # without parents, so that a discarded job is not made again
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
