"""Epochs of shards without Spark: what the tasks of a stream do, step by step."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa

from kstore_core import open_state
from kstore_core.codec import window_key
from kstore_core.restore import restore
from kstore_core.spark.live.stream_binding import StreamBinding
from kstore_core.spark.read.batches import chunks
from kstore_core.spark.read.selection import Selection
from kstore_core.spark.remote.layout import COMPACT_EVERY, layout_of
from kstore_core.spark.root.root import Root
from kstore_core.spark.shards.log import ShardLog
from kstore_core.spark.stream.shards import EpochTask
from kstore_core.spark.stream.steps import StepHook, no_step
from kstore_core.spark.stream.versions import Versions
from kstore_core.spec import StoreSpec
from kstore_core.tables.segments.databases import ChildStorage
from tests.spark.support.logs import Record, log_table

QUERY = "5f0c9a4e-1b7d-4f10-9a39-000000000001"

STEPS = ("opened", "applied", "committed", "copied", "reported", "published")


def rows_of(records: Sequence[Record]) -> pa.Table:
    """Records as the tasks of a stream get them."""
    rows = log_table(records)
    times = pa.array([record.timestamp for record in records], pa.int64())
    return rows.set_column(2, "timestamp", times).append_column("shard", rows["partition"])


@dataclasses.dataclass
class Streamed:
    """A root that a stream of these writes to, epoch by epoch, with all shards in this process."""

    path: Path | Root
    spec: StoreSpec
    engine: str = "rocksdb"
    partitions: int = 3
    publish_every: int = 1
    query: str = QUERY
    compact_every: int = COMPACT_EVERY

    @property
    def root(self) -> Root:
        """The root at the path."""
        return self.path if isinstance(self.path, Root) else Root.at(self.path)

    def versions(self) -> Versions:
        """As whoever starts the stream knows them."""
        root = self.root
        newest = root.newest()
        stream = StreamBinding(
            self.query,
            "checkpoint",
            self.spec.name,
            self.spec.shape,
            self.engine,
            self.partitions,
            "partition",
        )
        stream = stream.bind(layout_of(root.storage))
        return Versions(root, self.spec, stream, self.publish_every, newest, self.compact_every)

    def epoch(
        self,
        number: int,
        records: Sequence[Record] | pa.Table,
        *,
        versions: Versions | None = None,
        step: StepHook = no_step,
    ) -> list[pa.Table]:
        """Do an epoch, of records or rows; the output of each shard that has any."""
        versions = versions or self.versions()
        job = versions.begin(number)
        task = EpochTask.of(versions, number, job, emits=True, step=step)
        rows = records if isinstance(records, pa.Table) else rows_of(records)
        owners = np.asarray(rows["shard"])
        reported, outputs = [], []
        for shard in range(self.partitions):
            mine = rows.filter(pa.array(owners == shard))
            log = ShardLog.of(mine, self.spec) if mine.num_rows else None
            done, output = task.apply(shard, log)
            if done is not None:
                reported.append(done)
            if output is not None:
                outputs.append(output)
        step("reported", None)
        versions.finish(number, job, reported)
        step("published", None)
        return outputs


def content(path: Path, spec: StoreSpec, engine: str) -> tuple[list[Any], dict[Any, int]]:
    """Every record that a state directory shows, and its offsets."""
    with open_state(path, engine=engine, read_only=True) as state:
        store = state.open(spec)
        versioned = spec.format.versioned
        seen = Selection(history=versioned, from_ts=store.clock.horizon if versioned else None)
        tables = chunks(store, seen, ("value", "timestamp", "valid_to", "headers"))
        rows = [tuple(row.values()) for table in tables for row in table.to_pylist()]
        return sorted(rows, key=lambda row: row[:3]), state.offsets()


@dataclasses.dataclass(frozen=True)
class KillAt:
    """A step that kills its process the first time that it hears of a name."""

    name: str

    def __call__(self, told: str, shard: int | None) -> None:
        if told == self.name:
            os.kill(os.getpid(), signal.SIGKILL)


def killed_epoch(streamed: Streamed, number: int, records: Sequence[Record], name: str) -> None:
    """Do an epoch in this process, up to a step at which it is killed."""
    streamed.epoch(number, records, step=KillAt(name))


def killed_commit(
    streamed: Streamed, number: int, records: Sequence[Record], databases: int
) -> None:
    """Do an epoch in this process, killed when a commit has written so many databases of one."""
    write = ChildStorage._write

    def counted(storage: ChildStorage, *arguments: Any, **named: Any) -> None:
        nonlocal databases
        write(storage, *arguments, **named)
        databases -= 1
        if not databases:
            os.kill(os.getpid(), signal.SIGKILL)

    with mock.patch.object(ChildStorage, "_write", counted):
        streamed.epoch(number, records)


def in_windows(log: Sequence[Record], size: int) -> list[Record]:
    """A log with the window of each record's time behind its key, as Kafka Streams logs it."""
    return [dataclasses.replace(r, key=window_key(r.key, r.timestamp // size * size)) for r in log]


class Servant:
    """A process that opens no engine itself, and has each piece of work done by a fork of it."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def __call__(self, work: Callable[..., None], *arguments: Any) -> int:
        """Do it; how the fork ended: 0, or less the number of a signal."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        pickle.dump((work, arguments), self._process.stdin)
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def end(self) -> None:
        """Let it go."""
        self._process.communicate()
        assert self._process.returncode == 0


def serve() -> None:
    """Fork for each piece of work that standard input tells of, and tell how it ended."""
    pa.array([])  # For the first one pyarrow imports pandas, which takes longer than most epochs.
    with contextlib.suppress(EOFError):
        while True:
            work, arguments = pickle.load(sys.stdin.buffer)
            child = os.fork()
            if child == 0:
                try:
                    work(*arguments)
                    os._exit(0)
                except BaseException:  # noqa: BLE001 - it is printed
                    traceback.print_exc()
                    os._exit(1)
            _, status = os.waitpid(child, 0)
            sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
            sys.stdout.flush()


@functools.lru_cache(maxsize=32)
def restored(spec: StoreSpec, engine: str, records: tuple[Record, ...]) -> tuple[Any, Any]:
    """What one restore makes of the records of one shard."""
    log = ShardLog.of(rows_of(records), spec)
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch, "0_0")
        with open_state(path, engine=engine) as state:
            store = state.open(spec)
            restore(store, log.keys, log.values, log.timestamps, log.headers)
            state.commit({(o.topic, o.partition): o.offset for o in log.last_offsets(())})
        return content(path, spec, engine)


def shards_are(streamed: Streamed, log: list[Record]) -> bool:
    """Whether live shards, and those of the newest version, hold what the log makes."""
    root = streamed.root
    newest = root.newest()
    assert newest is not None
    for shard in newest.shards:
        mine = tuple(record for record in log if record.partition == shard.shard)
        wanted = restored(streamed.spec, streamed.engine, mine)
        with layout_of(root.storage).checkout(
            streamed.query, "", shard.shard, streamed.engine, 0
        ) as live:
            assert content(live.path, streamed.spec, streamed.engine) == wanted
        with root.local_shard(shard) as published:
            assert content(published, streamed.spec, streamed.engine) == wanted
        assert shard.records == len(mine)
        assert {(o.topic, o.partition): o.offset for o in shard.offsets} == wanted[1]
    return True


if __name__ == "__main__":
    serve()
