"""The driver plans ranges of offsets."""

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
    """Plan the ranges of a batch, as of now.

    A SpecError for offsets of other partitions, or an end before the begin; a StateError for an
    unknown topic or partition; an InconsistentStateError if records are missing and
    ``failOnDataLoss`` is true; an EngineError if the brokers do not answer, or refuse.
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
                f"{place[0]}-{place[1]} would end at {offset}, before its begin at {start[place]}; "
                "correct startingOffsets or endingOffsets"
            )
    for place in places:
        if end[place] > latest[place]:
            report_loss(options, place, f"ends at {latest[place]}, before the offset {end[place]}")
            end[place] = latest[place]
    return ranges_between(options, start, end, earliest)


def ranges_between(
    options: KafkaOptions, start: Mapping[Place, int], end: Offsets, earliest: Offsets
) -> list[OffsetRange]:
    """Return the ranges from `start` to `end`, split by the option ``minPartitions``.

    Expired records are skipped or, with ``failOnDataLoss``, an InconsistentStateError. A partition
    that ends before `start` was recreated, and is read from its first offset.
    """
    ranges = []
    for place, until in sorted(end.items()):
        begin = start[place]
        if begin > until or begin < earliest[place]:
            found = f"begins at {earliest[place]} and ends at {until}, and the next is {begin}"
            report_loss(options, place, found)
            begin = earliest[place]
        if begin < until:
            ranges.append(OffsetRange(*place, begin, until))
    return split(ranges, options.min_partitions)


def report_loss(options: KafkaOptions, place: Place, found: str) -> None:
    """Refuse to continue without some records, or log a warning."""
    lost = f"{place[0]}-{place[1]} at {options.servers} {found}"
    if options.fail_on_data_loss:
        raise InconsistentStateError(
            f"{lost}. Records have expired, or the topic was recreated; failOnDataLoss=false reads "
            "the remaining records"
        )
    _log.warning("%s; continuing with the remaining records", lost)
