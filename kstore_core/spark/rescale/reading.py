"""The task that reads the stored rows of old shards, and computes the new shard of each row."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from kstore_core.discovery.registry import make_engine
from kstore_core.errors import SpecError
from kstore_core.maintenance.migrate.contents import Contents, opened
from kstore_core.maintenance.rescale.expiry import earliest_row
from kstore_core.offsets.entries import StoreRecord
from kstore_core.spark.columns.shard_ids import shards_of
from kstore_core.spark.live.epochs import EPOCHS, parse_epochs
from kstore_core.spark.read.rows import gathered
from kstore_core.spark.rescale.key_classes import children_of
from kstore_core.spark.rescale.row_keys import segment_times, user_keys
from kstore_core.spark.root.manifest import Shard
from kstore_core.spark.root.root import Root
from kstore_core.spark.runtime.engines import engine_on_worker
from kstore_core.spark.shards.writing import failure
from kstore_core.spec import StoredSpec, StoreSpec

__all__ = ["ABOUT", "ROWS", "ROWS_DDL", "OldShards", "PublishedShards", "RowsTask"]

ABOUT = -(2**63)
"""The value of ``segment`` in a description of an old shard. It is less than every real segment."""

ROWS_DDL = "shard int, segment bigint, key binary, row binary"
ROWS = pa.schema(
    [
        ("shard", pa.int32()),
        ("segment", pa.int64()),
        ("key", pa.binary()),
        ("row", pa.binary()),
    ]
)


class OldShards(Protocol):
    """The shards whose rows are moved."""

    @property
    def engine(self) -> str:
        """The name of the engine of the shards."""

    def place(self, number: int) -> AbstractContextManager[Path | None]:
        """Return a context manager of a shard's state directory, or of None without a store."""


@dataclass(frozen=True, slots=True)
class PublishedShards:
    """The shards of a version of a root."""

    root: Root
    shards: tuple[Shard, ...]
    engine: str

    @contextmanager
    def place(self, number: int) -> Iterator[Path | None]:
        """Yield a directory with the files of a shard. The caller must not change the files."""
        shard = self.shards[number]
        if shard.path is None:
            yield None
            return
        with self.root.local_shard(shard) as path:
            yield path


@dataclass(frozen=True, slots=True)
class RowsTask:
    """The description of the first stage of a rescale. ``mapInArrow`` calls :meth:`run`.

    ``before`` and ``after`` are the old and the new number of shards. The serdes of the stored spec
    need not be built in.
    """

    old: OldShards
    stored: StoredSpec
    before: int
    after: int

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the shards whose numbers are in the first column.

        If a shard cannot be read, yield a row with the error, which the second stage reports.
        """
        for batch in batches:
            for number in batch.column(0).to_pylist():
                try:
                    yield from self.read(number)
                except Exception as error:  # noqa: BLE001 - failure() raises errors to retry
                    yield _about([number % self.after], number, failure(error, number))

    def read(self, number: int) -> Iterator[pa.RecordBatch]:
        """Yield a description of an old shard for each of its new shards, and then the rows.

        Expired rows are left out, because a new shard may have an earlier stream time, at which
        these rows would not be expired.
        """
        engine_on_worker(self.old.engine)
        with self.old.place(number) as path:
            if path is None:
                return
            spec = self.stored.of_bytes()
            with opened(make_engine(self.old.engine), path, spec) as contents:
                children = children_of(number, self.before, self.after)
                about = described(contents.record, spec.name, path)
                yield _about(list(children), number, about)
                yield from self._rows(contents, spec, number)

    def _rows(self, contents: Contents, spec: StoreSpec, number: int) -> Iterator[pa.RecordBatch]:
        interval = spec.segment_interval_ms
        in_segments = spec.shape in ("window", "session")
        earliest = earliest_row(spec, contents.record.stream_time) if in_segments else 0
        for keys, rows in gathered(contents.rows()):
            segments = np.zeros(len(keys), np.int64)
            if in_segments:
                assert interval is not None
                times = segment_times(spec, keys)
                segments = times // interval
                live = np.flatnonzero(times >= earliest)
                if len(live) < len(keys):
                    chosen = pa.array(live)
                    keys, rows, segments = keys.take(chosen), rows.take(chosen), segments[live]
            users = user_keys(spec, keys)
            self._check(users, number)
            shards = shards_of(users, self.after)
            yield pa.RecordBatch.from_arrays(
                [pa.array(shards), pa.array(segments), keys, rows], schema=ROWS
            )

    def _check(self, users: pa.Array, number: int) -> None:
        """Raise a SpecError if a key in the shard ``number`` belongs to another old shard."""
        places = shards_of(users, self.before)
        wrong = np.flatnonzero(places != number)
        if len(wrong):
            raise SpecError(
                f"the key {users[int(wrong[0])].as_py()[:40]!r} is in shard {number}, but Kafka's "
                f"murmur2 partitioner puts it into shard {places[wrong[0]]} of {self.before}, so "
                "its rows were written by another partitioner. Such a store cannot be rescaled; "
                "write it again from its records, with partition_by='key'"
            )


def described(record: StoreRecord, store: str, path: Path) -> dict[str, Any]:
    """Return the metadata of an old shard that the new shards need.

    Raise a CorruptionError if the numbers of its epochs cannot be read.
    """
    position = {
        topic: list(of_topic.items()) for topic, of_topic in (record.position or {}).items()
    }
    return {
        "stream_time": record.stream_time,
        "position": position,
        "epochs": parse_epochs(record.notes.get(EPOCHS), store, path),
    }


def _about(shards: list[int], number: int, about: dict[str, Any]) -> pa.RecordBatch:
    """Return a batch with a description of the old shard ``number`` for each of ``shards``."""
    columns = [
        pa.array(shards, pa.int32()),
        pa.array([ABOUT] * len(shards), pa.int64()),
        pa.array([b"%010d" % number] * len(shards), pa.binary()),
        pa.array([json.dumps(about).encode()] * len(shards), pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=ROWS)
