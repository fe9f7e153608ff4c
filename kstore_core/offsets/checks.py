"""Checks of offsets, topics and partition numbers."""

from __future__ import annotations

import operator
from collections.abc import Mapping

from kstore_core.offsets.entries import UNKNOWN, Partition

__all__ = ["check_integer", "check_offsets", "check_partition"]


def check_offsets(offsets: Mapping[Partition, int | None] | None) -> None:
    """Raise TypeError or ValueError if offsets are not valid."""
    if offsets is None:
        return
    if not isinstance(offsets, Mapping):
        raise TypeError(
            "offsets must be a mapping of (topic, partition) to an offset, not "
            f"{type(offsets).__name__}"
        )
    for partition, offset in offsets.items():
        if not (isinstance(partition, tuple) and len(partition) == 2):
            raise TypeError(f"a partition must be a pair (topic, number), not {partition!r}")
        check_partition(*partition)
        if offset is not None:
            check_integer("an offset", offset, -(2**63), 2**63)
            if operator.index(offset) < 0 and offset != UNKNOWN:
                raise ValueError(
                    f"the offset of {partition[0]}-{partition[1]} is {offset}, but must be 0 or "
                    "more, because it is the offset of the last applied record. If no record was "
                    "applied, leave the partition out, or pass None to remove its stored offset. "
                    f"An unknown offset is {UNKNOWN}, as in Kafka"
                )


def check_partition(topic: object, number: object) -> None:
    """Raise TypeError or ValueError if a topic or the number of a partition is not valid."""
    if not isinstance(topic, str):
        raise TypeError(f"a topic must be a str, not {type(topic).__name__}")
    if not topic or any("\ud800" <= letter <= "\udfff" for letter in topic):
        raise ValueError(
            f"{topic!r} is not the name of a topic; a name must not be empty, and must be valid "
            "Unicode text"
        )
    check_integer("a partition number", number, 0, 2**31)


def check_integer(what: str, number: object, least: int, beyond: int) -> None:
    """Raise TypeError or ValueError unless ``number`` is an integer in ``[least, beyond)``."""
    if isinstance(number, bool) or not hasattr(number, "__index__"):
        raise TypeError(f"{what} must be an int, not {type(number).__name__}")
    if not least <= operator.index(number) < beyond:
        raise ValueError(f"{what} is {number}; it must be between {least} and {beyond - 1}")
