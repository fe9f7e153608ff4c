"""The rule by which the offsets of several shards become the offsets of one new shard.

For each source partition, a shard contains all records of its keys up to an offset. A new shard
contains the records of several old shards, whose offsets may differ. So the description of a new
shard has two parts: the offset up to which the shard contains the records of all its keys, and
greater offsets for the keys of single old shards. docs/decisions/spark/rescaled-offsets.md proves
that a write to the new shards skips exactly the records that a write to the old shards would skip.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kstore_core.spark.rescale.key_classes import KeyClass, common
from kstore_core.spark.root.manifest import Offset, Shard
from kstore_core.spark.root.offsets import Ahead

__all__ = ["merged_offsets"]

Source = tuple[str, int]
_Prefix = tuple[int, KeyClass]
"""An offset, and the class of the keys whose records up to this offset a shard contains."""


def merged_offsets(
    parents: Mapping[KeyClass, Shard], keys: KeyClass
) -> tuple[tuple[Offset, ...], tuple[Ahead, ...]]:
    """Return the offsets of a new shard for all its keys, and greater offsets for some of its keys.

    The offset for all keys is the least one of the old shards. If an old shard has a greater
    offset, that offset applies only to the keys from this old shard.

    Parameters
    ----------
    parents : mapping
        The old shards that have keys of the new shard, by the classes of their keys.
    keys : KeyClass
        The keys of the new shard.
    """
    sources: set[Source] = set()
    for parent in parents.values():
        sources |= {(each.topic, each.partition) for each in parent.offsets}
        sources |= {(each.topic, each.partition) for each in parent.ahead}
    offsets: list[Offset] = []
    ahead: list[Ahead] = []
    for source in sorted(sources):
        bases: list[int | None] = []
        prefixes: list[_Prefix] = []
        for of_parent, parent in parents.items():
            shared = common(of_parent, keys)
            assert shared is not None
            base, others = _prefixes(parent, source, of_parent, shared)
            bases.append(base)
            prefixes += others if base is None else [(base, of_parent), *others]
        known = [base for base in bases if base is not None]
        least = min(known) if len(known) == len(bases) else None
        if least is not None:
            offsets.append(Offset(*source, least))
        ahead += [
            Ahead(*source, offset, *some)
            for offset, some in sorted(prefixes)
            if least is None or offset > least
        ]
    return tuple(offsets), tuple(ahead)


def _prefixes(
    parent: Shard, source: Source, of_parent: KeyClass, shared: KeyClass
) -> tuple[int | None, list[_Prefix]]:
    """Return the offsets of a source partition in an old shard, for the keys ``shared``.

    The first item is the offset up to which the old shard ``parent`` contains the records of all
    these keys. The second item has the greater offsets for some of these keys.
    """
    whole = [each.offset for each in parent.offsets if (each.topic, each.partition) == source]
    partial: list[_Prefix] = []
    for offset, some in _ahead(parent, source):
        if some.contains(shared):
            whole.append(offset)
        elif common(some, shared) is not None:
            of_both = common(some, of_parent)
            assert of_both is not None
            partial.append((offset, of_both))
    base = max(whole, default=None)
    return base, [each for each in partial if base is None or each[0] > base]


def _ahead(parent: Shard, source: Source) -> Iterator[_Prefix]:
    for each in parent.ahead:
        if (each.topic, each.partition) == source:
            yield each.offset, KeyClass(each.modulus, each.residue)
