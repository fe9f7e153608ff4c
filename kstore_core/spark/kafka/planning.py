"""Functions by which the driver plans the ranges of offsets that the tasks read."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping

from kstore_core.errors import InconsistentStateError, SpecError
from kstore_core.spark.kafka.offsets import EARLIEST, OffsetRange, Offsets, Place, Positions, split
from kstore_core.spark.kafka.options import KafkaOptions
from kstore_core.spark.kafka.topics import Brokers

__all__ = ["batch_ranges", "ranges_between", "report_loss"]

_log = logging.getLogger("kstore_core.spark.kafka")


def batch_ranges(options: KafkaOptions) -> list[OffsetRange]:
    """Ask the brokers for the present offsets, and return the ranges that a batch reads.

    Raises SpecError if an option does not name exactly the partitions of the read, or if the end of
    a partition is before its start. Raises StateError if a topic or a partition does not exist.
    Raises InconsistentStateError if records are missing and ``failOnDataLoss`` is true. Raises
    EngineError if the brokers do not answer, or if they refuse the request.
    """
    starting = options.starting or Positions("startingOffsets", EARLIEST)
    ending = options.ending or Positions("endingOffsets")
    with contextlib.closing(Brokers(options)) as brokers:
        places = brokers.places()
        earliest, latest = brokers.earliest(places), brokers.latest(places)
    start, end = starting.at(earliest, latest), ending.at(earliest, latest)
    for place, offset in ending.each.items():
        if 0 <= offset < starting.each.get(place, 0):
            raise SpecError(
                f"the read of {place[0]}-{place[1]} would end at offset {offset}, before its start "
                f"at {start[place]}; correct startingOffsets or endingOffsets"
            )
    for place in places:
        if end[place] > latest[place]:
            report_loss(options, place, f"ends at {latest[place]}, before the offset {end[place]}")
            end[place] = latest[place]
    return ranges_between(options, start, end, earliest)


def ranges_between(
    options: KafkaOptions, start: Mapping[Place, int], end: Offsets, earliest: Offsets
) -> list[OffsetRange]:
    """Return the ranges from ``start`` to ``end``, split as the option ``minPartitions`` requires.

    ``earliest`` contains the first offset of each partition. If a partition's start is before its
    first offset, records have expired. If a partition's start is after its end, the topic was
    recreated. In both cases, raise an InconsistentStateError if ``failOnDataLoss`` is true, and
    read the partition from its first offset if ``failOnDataLoss`` is false.
    """
    ranges = []
    for place, until in sorted(end.items()):
        begin = start[place]
        if begin > until or begin < earliest[place]:
            found = (
                f"begins at offset {earliest[place]} and ends at {until}, but the next offset to "
                f"read is {begin}"
            )
            report_loss(options, place, found)
            begin = earliest[place]
        if begin < until:
            ranges.append(OffsetRange(*place, begin, until))
    return split(ranges, options.min_partitions)


def report_loss(options: KafkaOptions, place: Place, found: str) -> None:
    """Report that records of a partition are missing.

    Raises InconsistentStateError if ``failOnDataLoss`` is true, and logs a warning if it is false.
    ``found`` says what is wrong with the partition, and begins with a verb.
    """
    lost = f"the partition {place[0]}-{place[1]} at {options.servers} {found}"
    if options.fail_on_data_loss:
        raise InconsistentStateError(
            f"{lost}. Records may have expired, or the topic may have been deleted or recreated. "
            "To read only the remaining records, pass failOnDataLoss=false"
        )
    _log.warning("%s; continuing with the remaining records", lost)
