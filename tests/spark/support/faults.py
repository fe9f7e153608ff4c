"""A storage that fails at a chosen call, and what jobs do without Spark."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from kstore_core.spark.root.manifest import Manifest
from kstore_core.spark.root.root import Root
from kstore_core.spark.root.storage.base import Storage
from kstore_core.spark.write.job import WriteJob
from tests.spark.support.logs import SHARDS, SPEC, Record, log_table


class Killed(BaseException):
    """The process ended here: nothing that it would do afterwards happens."""


@dataclass
class FaultyStorage:
    """A storage; the call of a number goes wrong.

    Attributes
    ----------
    inner : Storage
    at : int or None
        Which call, from 0 on.
    how : str
        ``"fails"`` before it does anything; ``"loses"`` its answer, but is done; ``"dies"`` with
        the process, before, or ``"dies after"`` it.
    calls : list of str
        The names of the methods that were called.
    requests : list of (str, str)
        The same names, each with the arguments as text.
    """

    inner: Storage
    at: int | None = None
    how: str = "fails"
    calls: list[str] = field(default_factory=list)
    requests: list[tuple[str, str]] = field(default_factory=list)
    dead: bool = False

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.inner, name)
        return self._wrapped(name, found) if callable(found) else found

    def _wrapped(self, name: str, call: Any) -> Any:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            if self.dead:
                raise Killed
            number = len(self.calls)
            self.calls.append(name)
            self.requests.append((name, str(args)))
            if number != self.at:
                return call(*args, **kwargs)
            if self.how == "fails":
                raise OSError("no answer")
            if self.how == "dies":
                self.dead = True
                raise Killed
            call(*args, **kwargs)
            if self.how == "loses":
                raise OSError("the answer was lost")
            self.dead = True
            raise Killed

        return wrapped


class FaultyObjects(FaultyStorage):
    """The same, taken for an object store."""

    path = None


def shards_of_log(records: Sequence[Record]) -> dict[int, list[Record]]:
    """The records of each shard, as Spark would bring them to its task."""
    shards: dict[int, list[Record]] = {}
    for record in records:
        shards.setdefault(record.partition, []).append(record)
    return shards


def begun(root: Root, mode: Any = "append", spec: Any = SPEC) -> WriteJob:
    """A job on top of the newest version."""
    job = WriteJob.plan(root, spec, root.newest(), engine="rocksdb", partitions=SHARDS, mode=mode)
    job.begin()
    return job


def write(
    root: Root, records: Sequence[Record], mode: Any = "append", spec: Any = SPEC
) -> Manifest:
    """What write_store does on the driver and in its tasks."""
    job = WriteJob.plan(root, spec, root.newest(), engine="rocksdb", partitions=SHARDS, mode=mode)
    try:
        job.begin()
        writer = job.writer()
        written = [
            done
            for shard, rows in sorted(shards_of_log(records).items())
            for done in writer.write(shard, 10 + shard, log_table(rows).to_batches())
        ]
        return job.publish(written)
    except BaseException:
        job.discard()
        raise


def files_below(path: Path) -> set[str]:
    """Every file of a root, relative to it."""
    return {str(file.relative_to(path)) for file in path.rglob("*") if file.is_file()}


def referred(root: Root) -> set[str]:
    """Every file that should be there: manifests, and what they refer to."""
    found = set()
    for version in root.versions():
        found |= {f"_kstore/{version}.json", *root.load(version).places()}
    return found


def publish_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have two writers meet before each puts its manifest in place."""
    barrier, publish = threading.Barrier(2, timeout=120), Root.publish

    def meet(home: Root, manifest: Any) -> None:
        barrier.wait()
        publish(home, manifest)

    monkeypatch.setattr(Root, "publish", meet)
