"""Classes of keys. The hashes of the keys of a class have the same remainder.

The hash of a key is ``murmur2(key) & 0x7fffffff``. The keys of a shard are a class: the number of
the shard is the remainder, and the number of shards is the modulus.
"""

from __future__ import annotations

from math import gcd, lcm
from typing import NamedTuple

__all__ = ["KeyClass", "children_of", "common", "parents_of"]

_HASHES = 2**31
"""The number of possible hashes."""


class KeyClass(NamedTuple):
    """The keys whose hash, divided by ``modulus``, has the remainder ``residue``."""

    modulus: int
    residue: int

    def contains(self, other: KeyClass) -> bool:
        """Return True if each key of ``other`` is in this class."""
        return other.modulus % self.modulus == 0 and other.residue % self.modulus == self.residue


def common(one: KeyClass, other: KeyClass) -> KeyClass | None:
    """Return the class of the keys that are in both classes, or None if there is no such key."""
    shared = gcd(one.modulus, other.modulus)
    if (one.residue - other.residue) % shared:
        return None
    # The Chinese remainder theorem: add multiples of one modulus until the other remainder fits.
    rest = other.modulus // shared
    steps = (other.residue - one.residue) // shared
    steps = steps * pow(one.modulus // shared, -1, rest) % rest
    residue = one.residue + one.modulus * steps
    if residue >= _HASHES:
        return None
    return KeyClass(min(lcm(one.modulus, other.modulus), _HASHES), residue)


def parents_of(shard: int, before: int, after: int) -> range:
    """Return the old shards that have keys of the new shard ``shard``.

    ``before`` and ``after`` are the old and the new number of shards.
    """
    step = gcd(before, after)
    return range(shard % step, before, step)


def children_of(shard: int, before: int, after: int) -> range:
    """Return the new shards that get keys of the old shard ``shard``.

    ``before`` and ``after`` are the old and the new number of shards.
    """
    return parents_of(shard, after, before)
