"""The stream reader of the data source ``kstore-kafka``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from kstore_core.errors import SpecError
from kstore_core.spark.kafka.offsets import Offsets, Place, Positions, limited, nested, placed
from kstore_core.spark.kafka.options import KafkaOptions
from kstore_core.spark.kafka.planning import ranges_between, report_loss
from kstore_core.spark.kafka.topics import Brokers

if TYPE_CHECKING:
    import pyarrow as pa

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )

    LIMITS = True
except ImportError:  # PySpark 4.1 has no read limits
    LIMITS = False
    SupportsTriggerAvailableNow = object  # type: ignore[assignment,misc]

__all__ = ["KafkaStream"]


class KafkaStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The stream reader of the data source ``kstore-kafka``.

    On the driver, the reader plans the ranges of offsets of each batch. On the workers, the reader
    reads the records of the ranges. Spark stores the offsets in the checkpoint. The reader passes
    offsets to Spark as nested dicts, such as ``{"topic": {"0": 23}}``. The checkpoints of Spark's
    own Kafka source have offsets of the same form.
    """

    def __init__(self, options: KafkaOptions) -> None:
        if options.max_offsets is not None and not LIMITS:
            raise SpecError(
                "maxOffsetsPerTrigger needs PySpark 4.2 or newer; leave out this option, or update "
                "PySpark"
            )
        self._options = options
        self._brokers: Brokers | None = None
        self._target: Offsets | None = None
        self._seen: Offsets | None = None
        self._reported: set[Place] = set()

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - the name is Spark's
        """Return the offsets at which a query with a new checkpoint starts."""
        brokers = self._connected()
        starting = self._options.starting or Positions("startingOffsets")
        places = brokers.places()
        return nested(starting.at(brokers.earliest(places), brokers.latest(places)))

    def latestOffset(  # noqa: N802 - the name is Spark's
        self, start: dict[str, Any] | None = None, limit: Any = None
    ) -> dict[str, Any]:
        """Return the exclusive end offsets of the next batch.

        ``start`` contains the offsets at which the batch begins, and ``limit`` is Spark's limit of
        the batch.
        """
        known = placed(start or {})
        self._seen = end = self._latest(known)
        if self._target is not None:
            last = {**known, **self._target}
            end = {
                place: min(offset, last[place]) for place, offset in end.items() if place in last
            }
        if limit is not None and not isinstance(limit, ReadAllAvailable):
            end = limited(_begins(known, end), end, limit.max_rows)
        return nested(end)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - the name is Spark's
        """Return the limit of a batch, which the option ``maxOffsetsPerTrigger`` sets."""
        most = self._options.max_offsets
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - the name is Spark's
        """Return the partitions' end offsets that were found when the last batch was planned.

        Spark shows these offsets in the progress reports of the query.
        """
        return None if self._seen is None else nested(self._seen)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - the name is Spark's
        """Remember the present end offsets, so that the query does not read later records."""
        brokers = self._connected()
        self._target = brokers.latest(brokers.places(may_be_gone=None))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Return the input partitions of the batch from ``start`` to ``end``.

        Each input partition is a range of offsets of one Kafka partition.
        """
        until = placed(end)
        begin = _begins(placed(start), until)
        until = {place: offset for place, offset in until.items() if offset != begin[place]}
        there = self._present(until)
        earliest = self._connected().earliest(there)
        until = {place: until[place] for place in there}
        return [
            InputPartition(one) for one in ranges_between(self._options, begin, until, earliest)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the records of an input partition on a worker, and yield them as Arrow batches."""
        from kstore_core.spark.kafka.reading import read_range

        return read_range(self._options, partition.value)

    def stop(self) -> None:
        """Close the connection to the brokers."""
        if self._brokers is not None:
            self._brokers.close()
            self._brokers = None

    def _connected(self) -> Brokers:
        if self._brokers is None:
            self._brokers = Brokers(self._options)
        return self._brokers

    def _latest(self, known: Offsets) -> Offsets:
        """Return the end offset of each partition, exclusive.

        If a partition in ``known`` was deleted, return its offset in ``known``.
        """
        there = self._connected().places(may_be_gone={topic for topic, _ in known})
        return {**self._gone(known, there), **self._connected().latest(there)}

    def _present(self, wanted: Offsets) -> list[Place]:
        """Return those partitions of ``wanted`` that still exist."""
        there = self._connected().places(may_be_gone=None)
        gone = self._gone(wanted, there)
        return [place for place in wanted if place not in gone]

    def _gone(self, known: Offsets, there: list[Place]) -> Offsets:
        """Return the partitions of ``known`` that are not in ``there``, with their offsets.

        If ``failOnDataLoss`` is true, raise an InconsistentStateError for such a partition.
        If it is false, log a warning for each such partition, but only once.
        """
        gone = {place: known[place] for place in known.keys() - set(there)}
        for place in sorted(gone.keys() - self._reported):
            report_loss(self._options, place, "was deleted, or the options no longer select it")
        self._reported |= gone.keys()
        return gone


def _begins(start: Offsets, end: Offsets) -> Offsets:
    """Return the start offset of each partition in ``end``.

    A partition that is not in ``start`` is new, and starts at 0.
    """
    return {place: start.get(place, 0) for place in end}
