"""The records to write to a shard, as Arrow columns."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kstore_core import arrow
from kstore_core.changelog.marks import MARK_KEY
from kstore_core.errors import SpecError
from kstore_core.spark.columns.arrow import combined, integers, millis, serialized
from kstore_core.spark.columns.log_keys import keys_of, user_keys
from kstore_core.spark.columns.shard_ids import shards_of
from kstore_core.spark.root.manifest import Offset
from kstore_core.spec import StoreSpec

if TYPE_CHECKING:
    from kstore_core.serdes import Serde

__all__ = ["LOG_COLUMNS", "ShardLog"]

LOG_COLUMNS = (
    *("key", "window_start", "window_end", "sequence", "session_start", "session_end"),
    *("value", "timestamp", "headers", "topic", "partition", "offset", "arrival"),
)
"""The names of the columns of a changelog that a write reads."""

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ShardLog:
    """Serialised records in the order of their arrival.

    All records belong to one shard if :meth:`check` raises no error.

    Attributes
    ----------
    shards : Array, optional
        The column ``shard``.
    users : Array
        The binary user's keys, which do not contain the times of windows and sessions.
    keys : Array
        The binary keys of the changelog.
    values : Array
        The binary values.
    timestamps : Array
        The times of the records in ms, as int64; 0 if the log has no times.
    headers : Array, optional
        The headers of the records.
    topics, sources, offsets : Array, optional
        The topic, the source partition and the offset of each record.
    timed : bool
        True if the log has times.
    """

    shards: pa.Array | None
    users: pa.Array
    keys: pa.Array
    values: pa.Array
    timestamps: pa.Array
    headers: pa.Array | None
    topics: pa.Array | None = None
    sources: pa.Array | None = None
    offsets: pa.Array | None = None
    timed: bool = True

    @classmethod
    def of(cls, rows: pa.Table, spec: StoreSpec) -> ShardLog:
        """Return the records of a table that has the columns of a changelog.

        The rows may have any order. Raise a SpecError if a column other than the value and the
        headers contains nulls. Also raise a SpecError if a key does not fit the store, or if a
        partition or an offset is out of range.
        """

        def column(name: str) -> pa.Array | None:
            return combined(rows[name], name) if name in rows.column_names else None

        rows = _without_marks(rows)
        _refuse_nulls(rows)
        headers = column("headers")
        if headers is not None:
            headers = headers.cast(arrow.headers_type())
            _refuse_nameless(headers)
        times = column("timestamp")
        milliseconds = np.zeros(len(rows), np.int64) if times is None else millis(times)[0]
        keys = keys_of(spec, column)
        users = user_keys(spec, keys)
        sources, offsets = column("partition"), column("offset")
        if offsets is not None:  # Without offsets, the column partition is not used as a source.
            _refuse_outside("partition", sources, 2**31 - 1)
            _refuse_outside("offset", offsets, 2**63 - 1)
        log = cls(
            column("shard"),
            users,
            keys,
            serialized(spec.value, column("value")),
            pa.array(milliseconds),
            headers,
            column("topic"),
            sources,
            offsets,
            times is not None,
        )
        return log.take(log._order(column("arrival")))

    def _order(self, arrival: pa.Array | None) -> Indices:
        """Return the positions of the records in the order of their arrival.

        The records of each source partition are sorted by offset. Records of several partitions
        are then merged by the stream time of each partition, as Kafka Streams merges the
        partitions of a task. Without the merge, the records of all partitions but the first could
        be late.
        """
        if self.offsets is None:
            if arrival is None:
                return np.arange(len(self.keys))
            return np.argsort(integers(arrival), kind="stable")
        zeros = np.zeros(len(self.keys), np.int64)
        topic = zeros
        if self.topics is not None:
            topics = self.topics.dictionary_encode()
            names = np.array(topics.dictionary.to_pylist(), dtype=object)
            topic = np.argsort(np.argsort(names))[integers(topics.indices)]
        source = zeros if self.sources is None else integers(self.sources)
        order = np.lexsort((integers(self.offsets), source, topic))
        topic, source = topic[order], source[order]
        begins = np.flatnonzero((topic[1:] != topic[:-1]) | (source[1:] != source[:-1])) + 1
        if not len(begins):
            return order
        times = integers(self.timestamps)[order]
        reached = np.concatenate([np.maximum.accumulate(part) for part in np.split(times, begins)])
        return order[np.argsort(reached, kind="stable")]

    def take(self, rows: Indices) -> ShardLog:
        """Return the records at some positions."""
        if len(rows) == len(self.keys) and bool(np.all(rows[1:] == rows[:-1] + 1)):
            return self
        chosen = pa.array(rows)
        columns = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return ShardLog(
            **{k: c.take(chosen) if isinstance(c, pa.Array) else c for k, c in columns.items()}
        )

    def __len__(self) -> int:
        return len(self.keys)

    def places(self, partitions: int, *, by_key: bool) -> Indices:
        """Return the number of each record's shard.

        If ``by_key`` is true or the log has no partitions, murmur2 of the key selects the shard.
        Otherwise the shard is the number of the source partition.
        """
        if by_key or self.sources is None:
            return np.asarray(shards_of(self.users, partitions), np.int64)
        return integers(self.sources)

    def check(self, shard: int, partitions: int) -> None:
        """Raise a SpecError if a record does not belong to ``shard``."""
        given = np.zeros(0, np.int64) if self.shards is None else integers(self.shards)
        outside = np.flatnonzero(given != shard)
        if len(outside):
            raise SpecError(
                f"{len(outside)} records have the partition {given[outside[0]]}, but with "
                f"partitions={partitions} the store has only the partitions 0 to {partitions - 1}. "
                "Pass the number of the topic's partitions as partitions=, or partition_by='key' "
                "to select shards by the keys"
            )
        wanted = shards_of(self.users, partitions)
        wrong = np.flatnonzero(wanted != shard)
        if len(wrong):
            key = self.users[int(wrong[0])].as_py()
            raise SpecError(
                f"{len(wrong)} of {len(wanted)} records have the partition {shard}, but their keys "
                f"belong to other partitions: the key {key[:40]!r} belongs to partition "
                f"{wanted[wrong[0]]} of {partitions}. The producer of these records used another "
                "partitioner than Kafka's murmur2, or another number of partitions. Pass "
                "partition_by='key' to select shards by the keys"
            )

    def check_decodable(self, spec: StoreSpec) -> None:
        """Raise a SpecError if a serde cannot read a key or a value.

        A store must not contain such a record, because every read of the record would fail.
        """
        for name, serde, column in (
            ("key", spec.key, self.users),
            ("value", spec.value, self.values),
        ):
            fault = _fault(serde, column)
            if fault is None:
                continue
            place = _first_fault(serde, column)
            fault = _fault(serde, column.slice(place, 1)) or fault
            of_key = "" if name == "key" else f" of the key {self.users[place].as_py()[:40]!r}"
            raise SpecError(
                f"the column {name!r} contains {column[place].as_py()[:40]!r}{of_key}, which the "
                f"serde {serde.name!r} cannot read: {fault}. Correct the record, filter the record "
                f"out, or pass a spec with {name}=serdes.BYTES, which accepts any bytes"
            )

    def after(self, offsets: tuple[Offset, ...]) -> tuple[ShardLog, int]:
        """Return the records whose offsets are greater than ``offsets``.

        The second result is the number of records that were left out.
        """
        if not offsets or self.topics is None or self.sources is None or self.offsets is None:
            return self, 0
        known = {(o.topic, o.partition): o.offset for o in offsets}
        topics = self.topics.dictionary_encode()
        names = topics.dictionary.to_pylist()
        sources, codes = np.unique(integers(self.sources), return_inverse=True)
        last = np.array([[known.get((n, int(s)), -1) for s in sources] for n in names], np.int64)
        fresh = np.flatnonzero(integers(self.offsets) > last[integers(topics.indices), codes])
        return self.take(fresh), len(self.keys) - len(fresh)

    def last_offsets(self, before: tuple[Offset, ...]) -> tuple[Offset, ...]:
        """Return the last offset of each source partition of the records and of ``before``."""
        last = {(o.topic, o.partition): o.offset for o in before}
        if self.topics is not None and self.sources is not None and self.offsets is not None:
            table = pa.table(
                {"topic": self.topics, "partition": self.sources, "offset": self.offsets}
            )
            for row in (
                table.group_by(["topic", "partition"]).aggregate([("offset", "max")]).to_pylist()
            ):
                source = (row["topic"], row["partition"])
                last[source] = max(row["offset_max"], last.get(source, -1))
        return tuple(Offset(topic, number, last[topic, number]) for topic, number in sorted(last))

    @property
    def stream_time(self) -> int:
        """The greatest time of the records in ms, or -1 if there are no times."""
        return int(integers(self.timestamps).max()) if self.timed and len(self.timestamps) else -1


def _without_marks(rows: pa.Table) -> pa.Table:
    """Remove the commit markers that kstore writes to a changelog, which are no records."""
    if not {"key", "value"} <= set(rows.column_names):
        return rows
    keys = rows["key"]
    text = pa.types.is_string(keys.type) or pa.types.is_large_string(keys.type)
    if not (text or pa.types.is_binary(keys.type) or pa.types.is_large_binary(keys.type)):
        return rows
    mark = pa.scalar(MARK_KEY.decode() if text else MARK_KEY, keys.type)
    is_mark = pc.fill_null(pc.and_(pc.equal(keys, mark), pc.is_null(rows["value"])), False)
    return rows.filter(pc.invert(is_mark)) if pc.any(is_mark).as_py() else rows


def _refuse_nulls(rows: pa.Table) -> None:
    for name in rows.column_names:
        missing = 0 if name in ("value", "headers") else rows[name].null_count
        if missing:
            column = "partition" if name == "shard" else name
            raise SpecError(
                f"{missing} of {len(rows)} records have no {column}; "
                "filter these records out. Nothing was written"
            )


def _refuse_outside(name: str, column: pa.Array | None, most: int) -> None:
    """Raise a SpecError if a number in ``column`` is negative or greater than ``most``."""
    if column is None:
        return
    numbers = integers(column)
    outside = numbers[(numbers < 0) | (numbers > most)]
    if len(outside):
        raise SpecError(
            f"{len(outside)} of {len(numbers)} records have the {name} {outside[0]}, which is not "
            f"from 0 to {most}. Correct the column, or leave out the columns topic, partition and "
            "offset. Nothing was written"
        )


def _refuse_nameless(headers: pa.Array) -> None:
    """Raise a SpecError if a header has no key, because Kafka and stores require a key."""
    each = headers.flatten()
    nameless = pc.or_(each.is_null(), pc.struct_field(each, "key").is_null())
    records = pc.list_parent_indices(headers).filter(nameless).unique()
    if len(records):
        raise SpecError(
            f"{len(records)} of {len(headers)} records have a header that is null or has a null "
            "key, but only the value of a header may be null. Correct the records, or remove such "
            "headers with filter(headers, h -> h.key is not null). Nothing was written"
        )


def _fault(serde: Serde[Any], column: pa.Array) -> Exception | None:
    """Decode a column with its serde, and return the error, or None if there was no error."""
    try:
        arrow.to_typed(serde, column)
    except (MemoryError, pa.ArrowCapacityError):
        raise
    except Exception as error:  # noqa: BLE001 - a user's serde may raise anything
        return error
    return None


def _first_fault(serde: Serde[Any], column: pa.Array) -> int:
    """Return the position of the first value that cannot be decoded."""
    low, high = 0, len(column)
    while high - low > 1:
        middle = (low + high) // 2
        if _fault(serde, column.slice(low, middle - low)) is None:
            low = middle
        else:
            high = middle
    return low
