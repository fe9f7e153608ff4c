"""What a read comes to before it runs: its columns, and the parts that tasks read one by one.

A plan is made on the driver and holds to the version that it was made of. Its task and each of its
parts travel to the workers.
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
from kstore_core.types import Time

if TYPE_CHECKING:
    import pyarrow as pa

    from kstore_core.spark.root.manifest import Manifest
    from kstore_core.spark.root.root import Root

__all__ = [
    "Part",
    "Plan",
    "ReadTask",
    "Reader",
    "Task",
    "chosen_partitions",
    "plan_records",
    "plan_store",
]


class Task(Protocol):
    """What is done for each part of a plan, on a worker."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of its batches."""

    def read(self, part: Any) -> Iterator[pa.RecordBatch]:
        """The batches of a part."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A read: what is done, and for which parts."""

    task: Task
    parts: tuple[Any, ...]


class Reader(Protocol):
    """Opens the stores of a plan's parts."""

    @property
    def spec(self) -> StoreSpec:
        """Of all of them."""

    def open(self, shard: Any) -> AbstractContextManager[Any]:
        """The store of one, read-only."""


@dataclass(frozen=True, slots=True)
class Part:
    """One store of those that are read, and which of its records.

    Attributes
    ----------
    shard : object
        What the reader opens.
    columns : mapping of str to object
        Columns that are the same in all its rows, such as ``partition``.
    keys : tuple of bytes or None
        The selected keys that can be in it.
    """

    shard: Any
    columns: Mapping[str, Any]
    keys: tuple[bytes, ...] | None = None


@dataclass(frozen=True, slots=True)
class ReadTask:
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
    as_of: Time | None = None,
    history: bool = False,
    from_ts: Time | None = None,
    to_ts: Time | None = None,
    keys: Iterable[bytes] | None = None,
    prefix: bytes | None = None,
    columns: Sequence[str] | None = None,
    partitions: Sequence[int] | None = None,
    headers: bool | None = None,
    timestamps: str = "timestamp",
) -> Plan:
    """A read of one version of a store: see :func:`kstore_core.spark.read_store`."""
    from kstore_core.spark.shards.published import ShardReader

    selection = select(
        spec,
        as_of=as_of,
        history=history,
        from_ts=from_ts,
        to_ts=to_ts,
        keys=keys,
        prefix=prefix,
    )
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
) -> Plan:
    """A read of these parts, with the columns of the store and those ``added``."""
    available = record_schema(reader.spec, headers, timestamps, added)
    schema = chosen(available, columns, f"the store {reader.spec.name!r}")
    return Plan(ReadTask(reader, selection, schema), parts)


def chosen_partitions(
    asked: Sequence[int] | None, there: Iterable[int], where: object
) -> frozenset[int]:
    """The partitions that are read.

    Raises
    ------
    SpecError
        One that is asked for is not there.
    """
    known = frozenset(there)
    if asked is None:
        return known
    missing = sorted(set(asked) - known)
    if missing:
        raise SpecError(
            f"{where} has no partition {', '.join(map(str, missing))}; it has "
            f"{', '.join(map(str, sorted(known)))}"
        )
    return frozenset(asked)
