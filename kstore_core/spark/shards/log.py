"""The Arrow columns of the records that a task writes to a shard."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kstore_core import arrow, serdes
from kstore_core.changelog.marks import MARK_KEY
from kstore_core.errors import SpecError
from kstore_core.spark.columns.arrow import combined, integers, millis, serialized
from kstore_core.spark.columns.log_keys import keys_of, user_keys
from kstore_core.spark.columns.shard_ids import hashes_of, shards_of
from kstore_core.spark.root.manifest import Offset
from kstore_core.spark.root.offsets import Ahead
from kstore_core.spec import StoreSpec

if TYPE_CHECKING:
    from kstore_core.serdes import Serde

__all__ = ["LOG_COLUMNS", "ShardLog"]

LOG_COLUMNS = (
    *("key", "window_start", "window_end", "sequence", "session_start", "session_end"),
    *("value", "timestamp", "headers", "topic", "partition", "offset", "arrival"),
)
"""The names of the columns that a write can read from a changelog."""

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ShardLog:
    """Serialised records in the order of their arrival.

    The records may belong to several shards. :meth:`check` checks that they belong to one shard.

    Attributes
    ----------
    shards : Array, optional
        The number of each record's shard, from the column ``shard``.
    users : Array
        The serialised user's keys, without the times of windows and sessions.
    keys : Array
        The binary keys of the changelog, with the times of windows and sessions.
    values : Array
        The binary values.
    timestamps : Array
        The times of the records in ms, as int64; 0 if the log has no times.
    headers : Array, optional
        The headers of the records.
    topics, sources, offsets : Array, optional
        The topic, the source partition and the offset of each record.
    arrivals : Array, optional
        The column ``arrival``, which orders the records of a log without offsets.
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
    arrivals: pa.Array | None = None
    timed: bool = True

    @classmethod
    def of(cls, rows: pa.Table, spec: StoreSpec) -> ShardLog:
        """Make a log from a table that has the columns of a changelog.

        The rows may have any order. Raise a SpecError if a column other than ``value`` and
        ``headers`` contains nulls. Raise a SpecError if a header has no key, if a key does not fit
        the store, or if a partition or an offset is out of range.
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
        milliseconds = np.zeros(len(rows), np.int64) if times is None else _whole(times, spec)
        keys = keys_of(spec, column)
        users = user_keys(spec, keys)
        sources, offsets = column("partition"), column("offset")
        if offsets is not None:  # Without offsets, the column partition names no source.
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
            column("arrival"),
            times is not None,
        )
        return log.take(log._order())

    def _order(self) -> Indices:
        """Return the positions of the records in the order of their arrival.

        The function sorts the records of each source partition by offset. It then merges the
        partitions by their stream times, as Kafka Streams does in a task. A simple concatenation
        could make the records of the later partitions late.
        """
        if self.offsets is None:
            if self.arrivals is None:
                return np.arange(len(self.keys))
            return np.argsort(integers(self.arrivals), kind="stable")
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
        """Return the records at the positions ``rows``, in this order."""
        if len(rows) == len(self.keys) and bool(np.all(rows[1:] == rows[:-1] + 1)):
            return self
        chosen = pa.array(rows)
        columns = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        arrays = {id(c): c for c in columns.values() if isinstance(c, pa.Array)}
        # The keys and the user's keys can be the same array, which is then taken once.
        taken = {number: array.take(chosen) for number, array in arrays.items()}
        return ShardLog(**{name: taken.get(id(c), c) for name, c in columns.items()})

    def pieces(self, max_bytes: int) -> Iterator[ShardLog]:
        """Divide the log into logs of about ``max_bytes`` each, and yield these logs."""
        columns = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        arrays = {name: c for name, c in columns.items() if isinstance(c, pa.Array)}
        size = sum(array.nbytes for array in arrays.values())
        rows = max(1, len(self) * max_bytes // max(size, 1))
        for start in range(0, len(self), rows):
            cut = {name: array.slice(start, rows) for name, array in arrays.items()}
            yield dataclasses.replace(self, **cut)

    def __len__(self) -> int:
        return len(self.keys)

    def by_source(self) -> Iterator[tuple[tuple[str, int], Indices]]:
        """Yield each source partition, with the positions of its records in this log.

        A source partition is a pair of its topic and its number. If the log has no offsets, yield
        all positions for one partition, whose topic is empty.
        """
        if self.offsets is None:
            yield ("", 0), np.arange(len(self))
            return
        zeros = np.zeros(len(self), np.int64)
        names, topic = [""], zeros
        if self.topics is not None:
            topics = self.topics.dictionary_encode()
            names, topic = topics.dictionary.to_pylist(), integers(topics.indices)
        source = zeros if self.sources is None else integers(self.sources)
        for number in np.unique(topic):
            of_topic = topic == number
            for part in np.unique(source[of_topic]):
                places = np.flatnonzero(of_topic & (source == part))
                yield (names[number], int(part)), places

    def places(self, partitions: int, *, by_key: bool) -> Indices:
        """Return the number of each record's shard.

        If ``by_key`` is true or the log has no column ``partition``, the murmur2 hash of the key
        selects the shard. If ``by_key`` is false and the log has this column, the column contains
        the number of the shard.
        """
        if by_key or self.sources is None:
            return np.asarray(shards_of(self.users, partitions), np.int64)
        return integers(self.sources)

    def by_place(self, places: Indices) -> dict[int, ShardLog]:
        """Divide the log by shard, and return the log of each shard by the shard's number.

        ``places`` contains the shard of each record. Each returned log has the order that
        :meth:`of` would give to its records alone.
        """
        found = np.unique(places)
        if len(found) == 1:
            return {int(found[0]): self}
        parts = {int(place): self.take(np.flatnonzero(places == place)) for place in found}
        return {place: part.take(part._order()) for place, part in parts.items()}

    def check(self, shard: int, partitions: int) -> None:
        """Raise a SpecError if a record does not belong to ``shard``.

        A record belongs to ``shard`` if the murmur2 hash of its key selects this shard of the
        ``partitions`` shards. If the log has a column ``shard``, this column must contain the same
        number.
        """
        given = np.zeros(0, np.int64) if self.shards is None else integers(self.shards)
        outside = np.flatnonzero(given != shard)
        if len(outside):
            raise SpecError(
                f"{len(outside)} records have a partition that the store does not have, for "
                f"example {given[outside[0]]}. With partitions={partitions} the store has the "
                f"partitions 0 to {partitions - 1}. "
                "Pass the number of the topic's partitions as partitions=, or partition_by='key' "
                "to select shards by the keys"
            )
        wanted = shards_of(self.users, partitions)
        wrong = np.flatnonzero(wanted != shard)
        if len(wrong):
            key = self.users[int(wrong[0])].as_py()
            raise SpecError(
                f"{len(wrong)} of {len(wanted)} records have the partition {shard}, but their keys "
                f"belong to other partitions; for example, the key {key[:40]!r} belongs to "
                f"partition {wanted[wrong[0]]} of {partitions}. The producer of these records used "
                "a partitioner other than Kafka's murmur2, or another number of partitions. Pass "
                "partition_by='key' to select shards by the keys"
            )

    def check_decodable(self, spec: StoreSpec) -> None:
        """Raise a SpecError if the serde of ``spec`` cannot read a key or a value.

        So a write never stores a record that no later read could decode.
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

    def after(
        self, offsets: tuple[Offset, ...], ahead: tuple[Ahead, ...] = ()
    ) -> tuple[ShardLog, int]:
        """Return the records that a shard does not contain, and the number of the other records.

        ``offsets`` has the last offset of each source partition in the shard. For some keys, the
        shard may contain later records; ``ahead`` has their last offsets. If the log has no column
        of topics, of source partitions or of offsets, return all records.
        """
        if self.topics is None or self.sources is None or self.offsets is None:
            return self, 0
        if not (offsets or ahead):
            return self, 0
        known = {(o.topic, o.partition): o.offset for o in offsets}
        topics = self.topics.dictionary_encode()
        names = topics.dictionary.to_pylist()
        sources, codes = np.unique(integers(self.sources), return_inverse=True)
        last = np.array([[known.get((n, int(s)), -1) for s in sources] for n in names], np.int64)
        is_fresh = integers(self.offsets) > last[integers(topics.indices), codes]
        if ahead:
            is_fresh &= ~self._are_ahead(ahead)
        fresh = np.flatnonzero(is_fresh)
        return self.take(fresh), len(self.keys) - len(fresh)

    def _are_ahead(self, ahead: tuple[Ahead, ...]) -> npt.NDArray[np.bool_]:
        """Return a mask of the records up to the offsets in ``ahead`` for the records' keys."""
        hashes, offsets = hashes_of(self.users), integers(self.offsets)
        found = np.zeros(len(self), np.bool_)
        for source, places in self.by_source():
            for each in ahead:
                if (each.topic, each.partition) == source:
                    of_class = hashes[places] % each.modulus == each.residue
                    found[places] |= of_class & (offsets[places] <= each.offset)
        return found

    def last_offsets(self, before: tuple[Offset, ...]) -> tuple[Offset, ...]:
        """Return the last offset of each source partition.

        The last offset is the greatest of the offsets of the partition's records, and of the
        partition's offset in ``before``.
        """
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
        """The greatest time of the records in ms, or -1 if the log has no times or no records."""
        return int(integers(self.timestamps).max()) if self.timed and len(self.timestamps) else -1


def _without_marks(rows: pa.Table) -> pa.Table:
    """Remove the commit markers, which kstore writes to a changelog between the records."""
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


def _whole(times: pa.Array, spec: StoreSpec) -> Indices:
    """Return times in ms. Raise a SpecError if a version's time is not a whole number of ms."""
    down, up = millis(times)
    if spec.format.versioned:
        finer = np.flatnonzero(down != up)
        if len(finer):
            raise SpecError(
                f"{len(finer)} of {len(times)} records have times with microseconds, such as "
                f"{times[int(finer[0])].as_py()}, but the versions of the store {spec.name!r} have "
                "milliseconds. If a key has two versions within one millisecond, only one of them "
                "would be stored. If you accept this, pass date_trunc('MILLISECOND', timestamp). "
                "Nothing was written"
            )
    return down


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
    """Raise a SpecError if a header is null or has no key, because Kafka requires header keys."""
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
    """Decode a column with its serde. Return the serde's error, or None if there is no error."""
    try:
        typed = arrow.to_typed(serde, column)
        if serde is serdes.JSON:
            arrow.check_json(typed)
    except (MemoryError, pa.ArrowCapacityError):
        raise
    except Exception as error:  # noqa: BLE001 - a user's serde may raise anything
        return error
    return None


def _first_fault(serde: Serde[Any], column: pa.Array) -> int:
    """Return the position of the first value that the serde cannot decode."""
    low, high = 0, len(column)
    while high - low > 1:
        middle = (low + high) // 2
        if _fault(serde, column.slice(low, middle - low)) is None:
            low = middle
        else:
            high = middle
    return low
