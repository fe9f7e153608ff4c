"""Functions that parse, split and limit the offsets of partitions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TypeAlias

from kstore_core.errors import SpecError

__all__ = [
    "EARLIEST",
    "LATEST",
    "OffsetRange",
    "Offsets",
    "Place",
    "Positions",
    "limited",
    "nested",
    "parse_places",
    "parse_positions",
    "placed",
    "split",
]

Place: TypeAlias = tuple[str, int]
"""A topic and one of its partitions."""

Offsets: TypeAlias = dict[Place, int]
"""For each partition, the offset of the next record to read."""

LATEST = -1
EARLIEST = -2
_NAMES = {"earliest": EARLIEST, "latest": LATEST}
_MOST = 2**31 - 1
"""The greatest number that a partition can have."""


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """The records of one partition with ``begin <= offset < end``."""

    topic: str
    partition: int
    begin: int
    end: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} from {self.begin} to {self.end}"


@dataclass(frozen=True, slots=True)
class Positions:
    """The start offsets or the end offsets of a read, which an option sets.

    A position is an offset, `EARLIEST` or `LATEST`. The mapping ``each`` has one position for each
    partition. If the mapping is empty, all partitions have the position ``everywhere``.
    """

    option: str
    everywhere: int = LATEST
    each: Mapping[Place, int] = field(default_factory=dict)

    def names(self, position: int) -> bool:
        """Return True if a partition has ``position``, which is `EARLIEST` or `LATEST`."""
        return position in (self.each.values() if self.each else (self.everywhere,))

    def at(self, earliest: Offsets, latest: Offsets) -> Offsets:
        """Return the offset of each partition of the read.

        ``earliest`` and ``latest`` contain the first offset and the end offset of each partition.
        Raises SpecError if the option names partitions, but not exactly the partitions of the read.
        """
        if self.each and self.each.keys() != latest.keys():
            faults = [
                f"{what} {', '.join(f'{topic}-{number}' for topic, number in sorted(places))}"
                for what, places in (
                    ("missing:", latest.keys() - self.each.keys()),
                    ("not read:", self.each.keys() - latest.keys()),
                )
                if places
            ]
            raise SpecError(
                f"{self.option} does not name exactly the partitions of the read: "
                f"{'; '.join(faults)}. Name each partition of the read, and no other partition"
            )
        known = {EARLIEST: earliest, LATEST: latest}
        asked = self.each or dict.fromkeys(latest, self.everywhere)
        return {place: known[at][place] if at in known else at for place, at in asked.items()}


def parse_positions(option: str, text: str) -> Positions:
    """Parse ``earliest``, ``latest``, or JSON such as ``{"topic": {"0": 23, "1": -2}}``.

    ``option`` is the name of the option, and ``text`` its value.
    """
    if text.strip().lower() in _NAMES:
        return Positions(option, _NAMES[text.strip().lower()])
    wrong = SpecError(
        f'{option}={text!r:.200} must be "earliest", "latest", or JSON with the offset of each '
        f'partition, such as {{"topic": {{"0": 23, "1": {EARLIEST}}}}}. In the JSON, {EARLIEST} '
        f"means the earliest offset and {LATEST} the latest offset"
    )
    try:
        each = placed(json.loads(text))
    except (ValueError, RecursionError) as error:
        raise wrong from error
    if not each or min(each.values()) < EARLIEST:
        raise wrong
    return Positions(option, each=each)


def parse_places(option: str, text: str) -> tuple[Place, ...]:
    """Parse JSON with the partitions of topics, such as ``{"topic": [0, 1]}``."""
    try:
        places = [
            (topic, number) for topic, numbers in json.loads(text).items() for number in numbers
        ]
        wrong = not places or not all(
            _is_offset(number) and 0 <= number <= _MOST for _, number in places
        )
    except (ValueError, TypeError, AttributeError, RecursionError):
        wrong = True
    if wrong or len(set(places)) != len(places):
        raise SpecError(
            f"{option}={text!r:.200} must be JSON with the partitions of each topic, "
            'such as {"topic": [0, 1]}'
        )
    return tuple(sorted(places))


def placed(tree: object) -> Offsets:
    """Convert nested dicts, such as ``{"topic": {"0": 23}}``, to a dict of `Offsets`.

    Raises ValueError if ``tree`` has another form.
    """
    found: Offsets = {}
    try:
        for topic, numbers in tree.items():  # type: ignore[attr-defined]
            for number, offset in numbers.items():
                if not (number.isdecimal() and _is_offset(offset)):
                    raise ValueError(
                        f"the partition {number!r} or its offset {offset!r} is not an allowed "
                        "number"
                    )
                place = (topic, int(number))
                if place in found:
                    raise ValueError(f"the partition {number!r} of {topic!r} is given twice")
                if place[1] > _MOST:
                    raise ValueError(
                        f"the partition {number!r} of {topic!r} is greater than {_MOST}, the "
                        "greatest partition number"
                    )
                found[place] = offset
    except AttributeError as error:
        raise ValueError(
            f"{tree!r} is not a mapping from topics to mappings from partitions to offsets"
        ) from error
    return found


def nested(offsets: Offsets) -> dict[str, dict[str, int]]:
    """Convert offsets to nested dicts, such as ``{"topic": {"0": 23}}``, for Spark's checkpoint."""
    tree: dict[str, dict[str, int]] = {}
    for (topic, number), offset in sorted(offsets.items()):
        tree.setdefault(topic, {})[str(number)] = offset
    return tree


def split(ranges: Sequence[OffsetRange], at_least: int | None) -> list[OffsetRange]:
    """Split long ranges, so that the result has at least ``at_least`` ranges.

    If there are fewer offsets than ``at_least``, each range of the result has one offset. The
    function splits no range if ``at_least`` is None.
    """
    total = sum(one.end - one.begin for one in ranges)
    if at_least is None or len(ranges) >= at_least or not total:
        return list(ranges)
    return [part for one in ranges for part in _parts(one, at_least, total)]


def _parts(whole: OffsetRange, at_least: int, total: int) -> Iterable[OffsetRange]:
    size = whole.end - whole.begin
    count = min(size, -(-size * at_least // total))
    cuts = [whole.begin + size * number // count for number in range(count + 1)]
    return (replace(whole, begin=a, end=b) for a, b in pairwise(cuts))


def limited(start: Offsets, end: Offsets, limit: int) -> Offsets:
    """Return the end offset of each partition for a batch of at most ``limit`` offsets.

    A partition's share of the limit is proportional to the number of its unread offsets. Each share
    is rounded down. The partitions whose shares lost most by the rounding get one more offset each.
    So the batch has ``limit`` offsets if there are enough unread offsets, and a stream advances
    even if the limit is 1.
    """
    waiting = {place: max(0, end[place] - start[place]) for place in end}
    total = sum(waiting.values())
    if total <= limit:
        return end
    shares = {place: count * limit // total for place, count in waiting.items()}
    left = limit - sum(shares.values())
    by_loss = sorted(waiting, key=lambda place: (-(waiting[place] * limit % total), place))
    for place in by_loss[:left]:
        shares[place] += 1
    return {place: start[place] + share for place, share in shares.items()}


def _is_offset(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and number < 2**63
