"""The offsets up to which a shard contains the records of all its keys, or of some of its keys.

A rescale may merge several old shards into one. The merged shard then contains the records of each
old shard's keys up to a different offset. docs/decisions/spark/rescaled-offsets.md has the rule and
its proof.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["Ahead", "Offset", "still_ahead"]


@dataclass(frozen=True, slots=True)
class Offset:
    """The greatest offset of a source partition whose record a shard has applied."""

    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Ahead:
    """An offset of a source partition up to which a shard has the records of some keys.

    This offset is greater than the shard's :class:`Offset` of the partition. The keys are those
    with ``(murmur2(key) & 0x7fffffff) % modulus == residue``.
    """

    topic: str
    partition: int
    offset: int
    modulus: int
    residue: int


def still_ahead(ahead: Iterable[Ahead], offsets: Iterable[Offset]) -> tuple[Ahead, ...]:
    """Return the entries of ``ahead`` that are greater than the offset of their source partition.

    For each source partition, ``offsets`` has the offset up to which the shard contains the records
    of all of its keys.
    """
    known = {(each.topic, each.partition): each.offset for each in offsets}
    return tuple(
        each for each in ahead if each.offset > known.get((each.topic, each.partition), -1)
    )
