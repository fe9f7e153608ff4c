"""The records of one shard as Arrow columns: in arrival order, checked, cut to what is new."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kstore_core import arrow
from kstore_core.errors import SpecError
from kstore_core.spark.columns import combined, serialized
from kstore_core.spark.manifest import Offset
from kstore_core.spark.partitioning import shards_of
from kstore_core.spec import StoreSpec

if TYPE_CHECKING:
    from kstore_core.serdes import Serde

__all__ = ["ShardLog"]

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ShardLog:
    """Records of one shard in arrival order, serialised."""

    shards: pa.Array
    keys: pa.Array
    values: pa.Array
    timestamps: pa.Array
    headers: pa.Array | None
    topics: pa.Array | None = None
    sources: pa.Array | None = None
    offsets: pa.Array | None = None

    @classmethod
    def of(cls, rows: pa.Table, spec: StoreSpec) -> ShardLog:
        """From a table of :func:`kstore_core.spark.frames.log_columns`, in whatever order."""

        def column(name: str) -> pa.Array | None:
            return combined(rows[name], name) if name in rows.column_names else None

        headers = column("headers")
        if headers is not None:
            headers = headers.cast(arrow.headers_type())
        log = cls(
            column("shard"),
            serialized(spec.key, column("key")),
            serialized(spec.value, column("value")),
            column("timestamp"),
            headers,
            column("topic"),
            column("partition"),
            column("offset"),
        )
        for name, wanted in (
            ("keys", "key"),
            ("timestamps", "timestamp"),
            ("shards", "partition"),
            ("topics", "topic"),
            ("sources", "partition"),
            ("offsets", "offset"),
        ):
            found = getattr(log, name)
            if found is not None and found.null_count:
                raise SpecError(
                    f"{found.null_count} of {len(found)} records have no {wanted}; "
                    "filter them out, nothing was written"
                )
        return log._take(log._order(column("arrival")))

    def _order(self, arrival: pa.Array | None) -> Indices:
        """Which record came when.

        Records of one source partition come by offset. Those of several are merged by the stream
        time that each source had reached, as Kafka Streams merges the partitions of a task: else
        all but the first source would seem too late.
        """
        if self.offsets is None:
            assert arrival is not None
            return np.argsort(_numpy(arrival), kind="stable")
        zeros = np.zeros(len(self.keys), np.int64)
        topic = zeros
        if self.topics is not None:
            topics = self.topics.dictionary_encode()
            names = np.array(topics.dictionary.to_pylist(), dtype=object)
            topic = np.argsort(np.argsort(names))[_numpy(topics.indices)]
        source = zeros if self.sources is None else _numpy(self.sources)
        order = np.lexsort((_numpy(self.offsets), source, topic))
        topic, source = topic[order], source[order]
        begins = np.flatnonzero((topic[1:] != topic[:-1]) | (source[1:] != source[:-1])) + 1
        if not len(begins):
            return order
        times = _numpy(self.timestamps)[order]
        reached = np.concatenate([np.maximum.accumulate(part) for part in np.split(times, begins)])
        return order[np.argsort(reached, kind="stable")]

    def _take(self, rows: Indices) -> ShardLog:
        if len(rows) == len(self.keys) and bool(np.all(rows[1:] == rows[:-1] + 1)):
            return self
        chosen = pa.array(rows)
        columns = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return ShardLog(**{k: c if c is None else c.take(chosen) for k, c in columns.items()})

    def check(self, shard: int, partitions: int) -> None:
        """Refuse records that do not belong to ``shard``.

        Raises
        ------
        SpecError
        """
        given = _numpy(self.shards)
        outside = np.flatnonzero(given != shard)
        if len(outside):
            raise SpecError(
                f"{len(outside)} records have the partition {given[outside[0]]}, and the store has "
                f"partitions={partitions}, from 0 to {partitions - 1}. Pass as many as the topic "
                "has, or partition_by='key' to place them anew"
            )
        wanted = shards_of(self.keys, partitions)
        wrong = np.flatnonzero(wanted != shard)
        if len(wrong):
            key = self.keys[int(wrong[0])].as_py()
            raise SpecError(
                f"{len(wrong)} of {len(wanted)} records have the partition {shard}, but their keys "
                f"belong to another: {key[:40]!r} to {wanted[wrong[0]]} of {partitions}. Another "
                "partitioner than Kafka's murmur2, or another number of partitions, wrote them; "
                "pass partition_by='key' to place them anew"
            )

    def check_decodable(self, spec: StoreSpec) -> None:
        """Refuse bytes that the serdes cannot read: one such row would make every read fail.

        Raises
        ------
        SpecError
        """
        for name, serde, column in (
            ("key", spec.key, self.keys),
            ("value", spec.value, self.values),
        ):
            fault = _fault(serde, column)
            if fault is None:
                continue
            place = _first_fault(serde, column)
            fault = _fault(serde, column.slice(place, 1)) or fault
            of_key = "" if name == "key" else f" of the key {self.keys[place].as_py()[:40]!r}"
            raise SpecError(
                f"the column {name!r} holds {column[place].as_py()[:40]!r}{of_key}, which the "
                f"serde {serde.name!r} cannot read: {fault}. Mend the record or filter it out; or "
                f"describe the store with {name}=serdes.BYTES, which keeps any bytes"
            )

    def after(self, offsets: tuple[Offset, ...]) -> tuple[ShardLog, int]:
        """The records that come after ``offsets``, and how many do not."""
        if not offsets or self.topics is None or self.sources is None or self.offsets is None:
            return self, 0
        known = {(o.topic, o.partition): o.offset for o in offsets}
        topics = self.topics.dictionary_encode()
        names = topics.dictionary.to_pylist()
        sources, codes = np.unique(_numpy(self.sources), return_inverse=True)
        last = np.array([[known.get((n, int(s)), -1) for s in sources] for n in names], np.int64)
        fresh = np.flatnonzero(_numpy(self.offsets) > last[_numpy(topics.indices), codes])
        return self._take(fresh), len(self.keys) - len(fresh)

    def last_offsets(self, before: tuple[Offset, ...]) -> tuple[Offset, ...]:
        """The last offset of each source, ``before`` included."""
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
        """The greatest time, -1 where there is none."""
        return int(_numpy(self.timestamps).max()) if len(self.timestamps) else -1


def _fault(serde: Serde[Any], column: pa.Array) -> Exception | None:
    """Why a column cannot be decoded, as a read would; None where it can."""
    try:
        arrow.to_typed(serde, column)
    except (MemoryError, pa.ArrowCapacityError):
        raise
    except Exception as error:  # noqa: BLE001 - whatever a user's serde raises
        return error
    return None


def _first_fault(serde: Serde[Any], column: pa.Array) -> int:
    """The place of the first value that cannot be decoded, where there is one."""
    low, high = 0, len(column)
    while high - low > 1:
        middle = (low + high) // 2
        if _fault(serde, column.slice(low, middle - low)) is None:
            low = middle
        else:
            high = middle
    return low


def _numpy(column: pa.Array) -> Indices:
    return np.asarray(column.to_numpy(zero_copy_only=False), np.int64)
