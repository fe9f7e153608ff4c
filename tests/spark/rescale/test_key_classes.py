"""Classes of keys against the sets of their hashes."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kstore_core.codec import partition
from kstore_core.spark.columns import shard_ids
from kstore_core.spark.columns.shard_ids import hashes_of, shards_of
from kstore_core.spark.rescale.key_classes import KeyClass, children_of, common, parents_of

HASHES = range(2 * 3 * 4 * 5 * 7)
CLASSES = [KeyClass(m, r) for m in (1, 2, 3, 4, 5, 6, 7) for r in range(m)]


def hashes(keys: KeyClass) -> set[int]:
    return {number for number in HASHES if number % keys.modulus == keys.residue}


def test_common_keys_are_the_intersection() -> None:
    for one, other in itertools.product(CLASSES, CLASSES):
        both = common(one, other)
        assert (hashes(both) if both else set()) == hashes(one) & hashes(other)
        assert one.contains(other) == (hashes(one) >= hashes(other))


@pytest.mark.parametrize(("before", "after"), list(itertools.product(range(1, 9), range(1, 9))))
def test_parents_and_children_are_those_that_share_keys(before: int, after: int) -> None:
    shared = {(number % before, number % after) for number in range(before * after)}
    for shard in range(after):
        assert {(parent, shard) for parent in parents_of(shard, before, after)} == {
            pair for pair in shared if pair[1] == shard
        }
    for shard in range(before):
        children = {(shard, child) for child in children_of(shard, before, after)}
        assert children == {pair for pair in shared if pair[0] == shard}


def test_great_moduli_stay_within_the_hashes() -> None:
    great = common(KeyClass(2**31 - 1, 5), KeyClass(2**30, 5))
    assert great == KeyClass(2**31, 5)
    assert common(KeyClass(2**31 - 1, 5), KeyClass(2**30, 6)) is None


def test_hashes_have_the_remainders_of_the_shards() -> None:
    keys = pa.array([b"", *(b"key-%d" % number for number in range(500))], pa.binary())
    found = hashes_of(keys)
    for count in (1, 2, 7, 32, 1000, 2**31 - 1):
        assert list(found % count) == list(shards_of(keys, count))
    assert partition(b"key-3", 32) == found[4] % 32


def test_the_least_and_the_greatest_hash_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    """No key of a test has one of these hashes, so the shards of two such keys stand for them."""
    given = np.array([0, 2**31 - 1, 9])

    def shards(keys: pa.Array, count: int) -> Any:
        return (given[: len(keys)] % count).astype(np.int32)

    monkeypatch.setattr(shard_ids, "shards_of", shards)
    assert list(hashes_of(pa.array([b"a", b"b", b"c"]))) == list(given)
