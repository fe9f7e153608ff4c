"""Functions that copy a live shard to a version.

To publish a live shard, the engine copies the open database as of its last commit. RocksDB's table
files never change, so the RocksDB engine makes hard links to these files instead of copies. If such
a file is also in the newest version, its hash is taken from that version. On an object store, such
a file is not uploaded again.
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
from kstore_core.spark.root.shard_files import data_files, sha256_of, unchanged

if TYPE_CHECKING:
    from kstore_core.spark.root.root import Root
    from kstore_core.state import StateDirectory

__all__ = ["epoch_of", "is_job_of", "job_of", "publish_shard"]

_JOB = re.compile(r"stream-(.+)-([0-9]+)(?:\.[0-9a-f]+)?")


def job_of(root: Root, query: str, epoch: int) -> str:
    """Return the name of the write job that publishes an epoch of a query.

    On an object store, no lock stops an attempt after another attempt has published the epoch. When
    the late attempt ends, it removes the files of its job. So each attempt has its own job. If two
    attempts had the same job, the late attempt would remove the published files.
    """
    attempt = f".{uuid.uuid4().hex[:12]}" if root.storage.path is None else ""
    return f"stream-{query}-{epoch}{attempt}"


def epoch_of(query: str, job: str) -> int | None:
    """Return the epoch that a write job published, or None if it is not a job of ``query``."""
    match = _JOB.fullmatch(job)
    return int(match[2]) if match and match[1] == query else None


def is_job_of(query: str, path: str) -> bool:
    """Return True if a write job of ``query`` published the shard at ``path``."""
    return any(epoch_of(query, part) is not None for part in path.split("/"))


def publish_shard(root: Root, job: str, state: StateDirectory, done: Shard, before: Shard) -> Shard:
    """Copy an open live shard to the directory of a write job, and describe the copy.

    ``done`` describes the live shard. The result is ``done`` with the path and the files of the
    copy. All rows of the shard must be committed. ``before`` is the description of the shard in the
    newest version. Raise a FileNotFoundError if the job was discarded.
    """
    name = state.path.name
    if root.storage.path is None:
        return _uploaded(root, job, state, done, before)
    attempt = root.path / root.attempts(job) / f"{done.shard}-{uuid.uuid4().hex[:12]}"
    attempt.mkdir()  # without parents, so that the call does not recreate a discarded job
    place = attempt / name
    state.checkpoint(place)
    older = None if before.path is None else root.path / before.path
    described = _described(place, older, {file.path: file for file in before.files})
    files = tuple(sorted(described, key=lambda file: file.path))
    return dataclasses.replace(done, path=place.relative_to(root.path).as_posix(), files=files)


def _uploaded(root: Root, job: str, state: StateDirectory, done: Shard, before: Shard) -> Shard:
    """Upload a copy of an open live shard, without the files that the newest version contains."""
    name = state.path.name
    place = f"{root.attempts(job)}/{done.shard}-{uuid.uuid4().hex[:12]}/{name}"
    scratch = state.path.with_name(f"{name}.out")
    shutil.rmtree(scratch, ignore_errors=True)  # left by a task that was killed
    try:
        state.checkpoint(scratch)
        files = root.upload(scratch, place, before, unchanged(scratch, before))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return dataclasses.replace(done, path=place, files=files)


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
