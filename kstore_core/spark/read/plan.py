"""Plans of reads: the driver chooses columns and parts, and tasks read the parts on workers.

A plan is for one version of a store.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from kstore_core.codec import partition
from kstore_core.errors import SpecError
from kstore_core.spark.read.batches import batches, chunks, rendered
from kstore_core.spark.read.schemas import chosen, record_schema
from kstore_core.spark.read.selection import Selection
from kstore_core.spec import StoreSpec

if TYPE_CHECKING:
    import pyarrow as pa

    from kstore_core.spark.root.manifest import Manifest
    from kstore_core.spark.root.root import Root

__all__ = ["Part", "ReadPlan", "Reader", "ScanTask", "Task", "View", "plan_records", "plan_store"]


class Task(Protocol):
    """The work on each part of a plan, done on a worker."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of its batches."""

    def read(self, part: Any) -> Iterator[pa.RecordBatch]:
        """Return the batches of a part."""


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """A task, and the parts that it reads."""

    task: Task
    parts: tuple[Any, ...]


class Reader(Protocol):
    """Opens the stores of a plan's parts."""

    @property
    def spec(self) -> StoreSpec:
        """The description of these stores."""

    def open(self, shard: Any) -> AbstractContextManager[Any]:
        """Open the store of a part, read-only."""


@dataclass(frozen=True, slots=True)
class Part:
    """One of the stores of a read."""

    shard: Any  # for the reader
    columns: Mapping[str, Any]  # with one value each, such as ``partition``
    keys: tuple[bytes, ...] | None = None  # the selected keys that may be in it


@dataclass(frozen=True, slots=True)
class View:
    """The columns and partitions of a read; by default all that a store has."""

    columns: Sequence[str] | None = None
    partitions: Sequence[int] | None = None
    headers: bool | None = None
    timestamps: str = "timestamp"

    def schema(
        self, spec: StoreSpec, where: str, last: Sequence[str], first: Sequence[str] = ()
    ) -> pa.Schema:
        """The columns to read, also of those added ``first`` and ``last``; else a SpecError."""
        available = record_schema(spec, self.headers, self.timestamps, first, last)
        return chosen(available, self.columns, where)

    def numbers(self, known: Iterable[int], where: object) -> frozenset[int]:
        """Return the partitions to read; one that is not ``known`` is a SpecError."""
        there = frozenset(known)
        wanted = there if self.partitions is None else frozenset(self.partitions)
        if wanted - there:
            raise SpecError(
                f"{where} has no partition {', '.join(map(str, sorted(wanted - there)))}; it has "
                f"{', '.join(map(str, sorted(there)))}"
            )
        return wanted


@dataclass(frozen=True, slots=True)
class ScanTask:
    """Reads selected records of a part."""

    reader: Reader
    selection: Selection
    schema: pa.Schema

    def read(self, part: Part) -> Iterator[pa.RecordBatch]:
        """Batches of its records."""
        selection = replace(self.selection, keys=part.keys)
        with self.reader.open(part.shard) as store:
            for chunk in chunks(store, selection, self.schema.names):
                yield from batches(rendered(chunk, self.reader.spec, self.schema, part.columns))


def plan_store(
    root: Root, manifest: Manifest, spec: StoreSpec, selection: Selection, view: View
) -> ReadPlan:
    """Plan the read of one version of a store."""
    from kstore_core.spark.shards.published import ShardReader

    by_shard: dict[int, list[bytes]] = {}
    for key in selection.keys or ():
        by_shard.setdefault(partition(key, manifest.partitions), []).append(key)
    numbers = view.numbers(range(manifest.partitions), root)
    parts = tuple(
        Part(
            shard,
            {"partition": shard.shard},
            None if selection.keys is None else tuple(by_shard[shard.shard]),
        )
        for shard in manifest.shards
        if shard.path is not None
        and shard.shard in numbers
        and (selection.keys is None or shard.shard in by_shard)
    )
    reader = ShardReader(root, spec, manifest.engine)
    return plan_records(reader, selection, view, parts, ("partition",))


def plan_records(
    reader: Reader, selection: Selection, view: View, parts: tuple[Part, ...], added: Sequence[str]
) -> ReadPlan:
    """Plan the read of parts, with the columns of the store and those ``added``."""
    schema = view.schema(reader.spec, f"the store {reader.spec.name!r}", added)
    return ReadPlan(ScanTask(reader, selection, schema), parts)
