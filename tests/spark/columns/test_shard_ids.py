"""The vectorised murmur2 against the codec's, key by key."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstore_core import serdes
from kstore_core.codec import partition
from kstore_core.spark.columns.key_shards import put_shards
from kstore_core.spark.columns.shard_ids import ShardOfKey, shards_of

KEYS = st.lists(st.none() | st.binary(max_size=40), max_size=30)


@settings(deadline=None)
@given(KEYS, st.integers(1, 2**31 - 1))
def test_every_key_goes_where_kafka_puts_it(keys: list[bytes | None], count: int) -> None:
    expected = [0 if key is None else partition(key, count) for key in keys]
    assert shards_of(pa.array(keys, pa.binary()), count).tolist() == expected
    assert shards_of(pa.array(keys, pa.large_binary()), count).tolist() == expected


@settings(deadline=None)
@given(KEYS, st.integers(0, 5))
def test_a_slice_of_a_column_is_read_where_it_begins(keys: list[bytes | None], skip: int) -> None:
    column = pa.array([b"before", None, *keys], pa.binary())[2:].slice(skip)
    expected = [0 if key is None else partition(key, 7) for key in keys[skip:]]
    assert shards_of(column, 7).tolist() == expected


def test_vectors_of_kafka() -> None:
    keys = pa.array(["", "a", "ab", "abc", "abcd", "21", "foobar", "a-little-bit-long-string"])
    assert shards_of(keys, 10).tolist() == [1, 4, 4, 7, 0, 0, 6, 2]


@pytest.mark.parametrize(
    ("serde", "column"),
    [
        (serdes.BYTES, pa.array([b"a", b"b"])),
        (serdes.UTF8, pa.array(["a", "ключ"])),
        (serdes.INT64, pa.array([1, -1], pa.int64())),
        (serdes.FLOAT64, pa.array([0.5, -2.0])),
    ],
)
def test_a_typed_key_goes_where_its_bytes_go(serde: serdes.BuiltInSerde, column: pa.Array) -> None:  # type: ignore[type-arg]
    found = ShardOfKey(serde, 5)(column)
    assert found.type == pa.int32()
    assert found.to_pylist() == [partition(serde.serialize(k), 5) for k in column.to_pylist()]


def test_what_does_not_fit_is_refused() -> None:
    keys = pa.array([b"a", b"b"])
    with pytest.raises(ValueError, match="shards=0 is less than 1"):
        shards_of(keys, 0)
    with pytest.raises(ValueError, match="out has 1 items for 2 keys"):
        put_shards(keys, 3, np.empty(1, np.int32))
