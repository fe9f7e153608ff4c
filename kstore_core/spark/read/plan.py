"""The plans of reads of stores.

The driver makes a plan, in which it selects the columns and the parts to read, such as shards.
Tasks on the workers then read the parts. All parts are of the versions that the driver selected.
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
    """The work that a worker does for each part of a plan."""

    @property
    def schema(self) -> pa.Schema:
        """The schema of the batches that :meth:`read` returns."""

    def read(self, part: Any) -> Iterator[pa.RecordBatch]:
        """Return the records of a part in batches."""


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """A task, and the parts that the task reads.

    Attributes
    ----------
    task : Task
        The task.
    parts : tuple
        The parts that the task reads.
    partitions : int, optional
        The number of shards among which murmur2 distributes the keys. None if a part may contain
        any key.
    """

    task: Task
    parts: tuple[Any, ...]
    partitions: int | None = None


class Reader(Protocol):
    """An object that opens the stores that a plan reads, one for each part of the plan."""

    @property
    def spec(self) -> StoreSpec:
        """The spec with which the stores are opened."""

    def open(self, shard: Any) -> AbstractContextManager[Any]:
        """Return a context manager of the store of a part, which is open for reading only."""


@dataclass(frozen=True, slots=True)
class Part:
    """One of the stores that a plan reads, such as a shard.

    Attributes
    ----------
    shard : object
        The argument of :meth:`Reader.open` that selects the store.
    columns : mapping
        The columns that have one value for all records of the store, such as ``partition``.
    keys : tuple of bytes, optional
        The selected keys that the store may contain; None if the read does not select keys.
    """

    shard: Any
    columns: Mapping[str, Any]
    keys: tuple[bytes, ...] | None = None


@dataclass(frozen=True, slots=True)
class View:
    """The columns and partitions that a read returns, by default all columns and partitions.

    The attributes are the options of :func:`read_store` with these names.
    """

    columns: Sequence[str] | None = None
    partitions: Sequence[int] | None = None
    headers: bool | None = None
    timestamps: str = "timestamp"

    def schema(
        self, spec: StoreSpec, where: str, last: Sequence[str], first: Sequence[str] = ()
    ) -> pa.Schema:
        """Return the schema of the columns to read.

        ``first`` and ``last`` are columns that the read adds before and after the columns of the
        store. Raise a SpecError if an option is wrong; ``where`` names the store in the message.
        """
        available = record_schema(spec, self.headers, self.timestamps, first, last)
        return chosen(available, self.columns, where)

    def numbers(self, known: Iterable[int], where: object) -> frozenset[int]:
        """Return the partitions to read.

        Raise a SpecError if a selected partition is not in ``known``.
        """
        there = frozenset(known)
        wanted = there if self.partitions is None else frozenset(self.partitions)
        if wanted - there:
            raise SpecError(
                f"{where} has no partition {', '.join(map(str, sorted(wanted - there)))}; its "
                f"partitions are {', '.join(map(str, sorted(there)))}"
            )
        return wanted


@dataclass(frozen=True, slots=True)
class ScanTask:
    """The task that reads the selected records of a part."""

    reader: Reader
    selection: Selection
    schema: pa.Schema

    def read(self, part: Part) -> Iterator[pa.RecordBatch]:
        """Yield the selected records of a part in batches."""
        selection = replace(self.selection, keys=part.keys)
        with self.reader.open(part.shard) as store:
            for chunk in chunks(store, selection, self.schema.names):
                yield from batches(rendered(chunk, self.reader.spec, self.schema, part.columns))


def plan_store(
    root: Root, manifest: Manifest, spec: StoreSpec, selection: Selection, view: View
) -> ReadPlan:
    """Return the plan of a read of one version of a store."""
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
    plan = plan_records(reader, selection, view, parts, ("partition",))
    return replace(plan, partitions=manifest.partitions)


def plan_records(
    reader: Reader, selection: Selection, view: View, parts: tuple[Part, ...], added: Sequence[str]
) -> ReadPlan:
    """Return the plan of a read of ``parts``.

    The columns are those of the store, followed by the columns in ``added``.
    """
    schema = view.schema(reader.spec, f"the store {reader.spec.name!r}", added)
    return ReadPlan(ScanTask(reader, selection, schema), parts)
