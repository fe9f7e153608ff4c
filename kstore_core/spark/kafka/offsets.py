"""Offsets of partitions: parsed from options and checkpoints, split, and limited."""

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
"""The next offset to be read of each partition."""

LATEST = -1
EARLIEST = -2
_NAMES = {"earliest": EARLIEST, "latest": LATEST}
_MOST = 2**31 - 1
"""The greatest number of a partition."""


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
    """The start or end offsets of a read, from an option."""

    option: str  # its name
    everywhere: int = LATEST  # or EARLIEST; used if ``each`` is empty
    each: Mapping[Place, int] = field(default_factory=dict)  # offsets, EARLIEST or LATEST

    def names(self, position: int) -> bool:
        """Return True if a partition begins or ends at this position."""
        return position in (self.each.values() if self.each else (self.everywhere,))

    def at(self, earliest: Offsets, latest: Offsets) -> Offsets:
        """Return the offset of each partition of the read; a SpecError if the option has others."""
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
                f"{self.option} must name exactly the partitions of the read: {'; '.join(faults)}"
            )
        known = {EARLIEST: earliest, LATEST: latest}
        asked = self.each or dict.fromkeys(latest, self.everywhere)
        return {place: known[at][place] if at in known else at for place, at in asked.items()}


def parse_positions(option: str, text: str) -> Positions:
    """Parse ``earliest``, ``latest`` or JSON ``{"topic": {"0": 23, "1": -2}}``."""
    if text.strip().lower() in _NAMES:
        return Positions(option, _NAMES[text.strip().lower()])
    wrong = SpecError(
        f'{option}={text!r:.200} must be "earliest", "latest", or JSON with the offset of each '
        f'partition, {{"topic": {{"0": 23, "1": {EARLIEST}}}}}, in which {EARLIEST} is the '
        f"earliest and {LATEST} the latest"
    )
    try:
        each = placed(json.loads(text))
    except (ValueError, RecursionError) as error:
        raise wrong from error
    if not each or min(each.values()) < EARLIEST:
        raise wrong
    return Positions(option, each=each)


def parse_places(option: str, text: str) -> tuple[Place, ...]:
    """Parse partitions, JSON ``{"topic": [0, 1]}``."""
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
            '{"topic": [0, 1]}'
        )
    return tuple(sorted(places))


def placed(tree: object) -> Offsets:
    """Read the offsets in a tree ``{"topic": {"0": 23}}``; a ValueError for another value."""
    found: Offsets = {}
    try:
        for topic, numbers in tree.items():  # type: ignore[attr-defined]
            for number, offset in numbers.items():
                if not (number.isdecimal() and _is_offset(offset)):
                    raise ValueError(f"partition {number!r} at {offset!r}")
                place = (topic, int(number))
                if place in found or place[1] > _MOST:
                    raise ValueError(f"partition {number!r} is duplicate, or too great")
                found[place] = offset
    except AttributeError as error:
        raise ValueError(f"not a tree of offsets: {tree!r}") from error
    return found


def nested(offsets: Offsets) -> dict[str, dict[str, int]]:
    """Write offsets as a tree of topics and partitions, as in Spark's checkpoints."""
    tree: dict[str, dict[str, int]] = {}
    for (topic, number), offset in sorted(offsets.items()):
        tree.setdefault(topic, {})[str(number)] = offset
    return tree


def split(ranges: Sequence[OffsetRange], at_least: int | None) -> list[OffsetRange]:
    """Split long ranges into about equal parts, ``at_least`` in all."""
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
    """Share `limit` offsets among partitions, in proportion to their backlogs.

    Shares are rounded down. The partitions that lost most by it get the remaining offsets, so the
    limit is used up, and a stream advances even with a limit of 1.
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
