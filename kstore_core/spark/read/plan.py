"""Plans of reads, made on the driver: the columns, and the parts that tasks read on workers.

A plan reads only the version of the store that it was made for.
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
from kstore_core.spark.read.selection import Selection, select
from kstore_core.spec import StoreSpec

if TYPE_CHECKING:
    import pyarrow as pa

    from kstore_core.spark.root.manifest import Manifest
    from kstore_core.spark.root.root import Root

__all__ = [
    "Part",
    "ReadPlan",
    "Reader",
    "ScanTask",
    "Task",
    "chosen_partitions",
    "plan_records",
    "plan_store",
]


class Task(Protocol):
    """The work on each part of a plan, done on a worker."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of its batches."""

    def read(self, part: Any) -> Iterator[pa.RecordBatch]:
        """The batches of a part."""


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
    """One of the stores that are read.

    Attributes
    ----------
    shard : object
        Opened by the reader.
    columns : mapping of str to object
        Columns with one value, such as ``partition``.
    keys : tuple of bytes or None
        The selected keys that may be in it.
    """

    shard: Any
    columns: Mapping[str, Any]
    keys: tuple[bytes, ...] | None = None


@dataclass(frozen=True, slots=True)
class ScanTask:
    """Reads the selected records of a part."""

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
    home: Root,
    manifest: Manifest,
    spec: StoreSpec,
    *,
    columns: Sequence[str] | None = None,
    partitions: Sequence[int] | None = None,
    headers: bool | None = None,
    timestamps: str = "timestamp",
    **selected: Any,
) -> ReadPlan:
    """Plan the read of one version of a store; ``selected`` goes to `select`."""
    from kstore_core.spark.shards.published import ShardReader

    selection = select(spec, **selected)
    by_shard: dict[int, list[bytes]] = {}
    for key in selection.keys or ():
        by_shard.setdefault(partition(key, manifest.partitions), []).append(key)
    numbers = chosen_partitions(partitions, range(manifest.partitions), home)
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
    reader = ShardReader(home, spec, manifest.engine)
    return plan_records(reader, selection, parts, columns, headers, timestamps)


def plan_records(
    reader: Reader,
    selection: Selection,
    parts: tuple[Part, ...],
    columns: Sequence[str] | None,
    headers: bool | None,
    timestamps: str,
    added: Sequence[str] = ("partition",),
) -> ReadPlan:
    """Plan the read of parts, with the columns of the store and those ``added``."""
    available = record_schema(reader.spec, headers, timestamps, added)
    schema = chosen(available, columns, f"the store {reader.spec.name!r}")
    return ReadPlan(ScanTask(reader, selection, schema), parts)


def chosen_partitions(
    wanted: Sequence[int] | None, there: Iterable[int], where: object
) -> frozenset[int]:
    """The partitions to read; a missing one is a SpecError."""
    known = frozenset(there)
    if wanted is None:
        return known
    missing = sorted(set(wanted) - known)
    if missing:
        raise SpecError(
            f"{where} has no partition {', '.join(map(str, missing))}; it has "
            f"{', '.join(map(str, sorted(known)))}"
        )
    return frozenset(wanted)
