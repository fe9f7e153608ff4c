"""Rows packed by shard: none is lost, each goes to the shard of its key, and streams are small."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstore_core import serdes
from kstore_core.arrow import headers_type
from kstore_core.codec import partition
from kstore_core.errors import SpecError
from kstore_core.spark.shards import packing
from kstore_core.spark.shards.packing import PACKED, Packing, unpacked

Row = tuple[int, bytes | None, list[dict[str, object]] | None]

HEADERS = st.lists(
    st.fixed_dictionaries({"key": st.text(max_size=3), "value": st.none() | st.binary(max_size=9)}),
    max_size=2,
)
ROWS = st.lists(
    st.tuples(st.integers(0, 9), st.none() | st.binary(max_size=3), st.none() | HEADERS),
    max_size=40,
)


def batch_of(rows: list[Row]) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    types = [pa.int64(), pa.binary(), headers_type()]
    arrays = [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=["number", "key", "headers"])


def found_in(batches: Iterator[pa.RecordBatch]) -> dict[int, list[Row]]:
    """The rows of each shard, read from packed rows as Spark passes them on."""
    found: dict[int, list[Row]] = {}
    for batch in batches:
        assert batch.schema == PACKED
        stored = pa.RecordBatch.from_pylist(batch.to_pylist(), schema=PACKED)
        for shard, rows in unpacked(iter([stored])):
            rows.validate(full=True)
            found.setdefault(shard, []).extend(tuple(row.values()) for row in rows.to_pylist())  # type: ignore[misc]
    return found


@given(st.lists(ROWS, max_size=4), st.integers(1, 7), st.integers(1, 300), st.integers(0, 3))
def test_each_row_goes_to_the_shard_of_its_key(
    tasks: list[list[Row]], shards: int, stream_bytes: int, skipped: int
) -> None:
    batches = [batch_of(rows)[min(skipped, len(rows)) :] for rows in tasks]
    wanted: dict[int, list[Row]] = {}
    for number, key, headers in itertools.chain(*(rows[skipped:] for rows in tasks)):
        shard = 0 if key is None else partition(key, shards)
        wanted.setdefault(shard, []).append((number, key, headers))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packing, "_STREAM_BYTES", stream_bytes)
        patch.setattr(packing, "_BATCH_BYTES", 4 * stream_bytes)
        assert found_in(Packing(shards, serdes.BYTES, 1).pack(iter(batches))) == wanted


def test_streams_have_a_bounded_size() -> None:
    rows: list[Row] = [(n, b"%d" % n, [{"key": "h", "value": bytes(500)}]) for n in range(3_000)]
    packed = list(Packing(3, serdes.BYTES, 1).pack(iter([batch_of(rows)])))
    sizes = [len(row["rows"]) for batch in packed for row in batch.to_pylist()]
    assert len(sizes) > 20
    assert max(sizes) < 80_000
    assert all(size % 64 == 0 for size in sizes)


def test_few_large_rows_among_small_ones_have_streams_of_their_own() -> None:
    large = b"l" * 100_000
    rows: list[Row] = [
        (n, b"%d" % n, [{"key": "h", "value": large if n % 100 < 3 else b"s"}]) for n in range(500)
    ]
    packed = list(Packing(1, serdes.BYTES, 1).pack(iter([batch_of(rows)])))
    sizes = [len(row["rows"]) for batch in packed for row in batch.to_pylist()]
    assert len(sizes) < 100
    assert max(sizes) < 132_000
    assert found_in(iter(packed)) == {0: rows}


@pytest.mark.parametrize("kind", [pa.int32(), pa.int64()])
def test_a_row_in_the_wrong_partition_is_refused(kind: pa.DataType) -> None:
    shards, key = 3, b"k3"
    right = partition(key, shards)

    def packed(shard: int | None, key: bytes | None = key) -> dict[int, list[Row]]:
        columns = {"key": pa.array([key], pa.binary()), "partition": pa.array([shard], kind)}
        task = Packing(shards, serdes.BYTES, 0, shard=1)
        return found_in(task.pack(iter([pa.RecordBatch.from_pydict(columns)])))

    assert packed(right) == {right: [(key, right)]}
    other = (right + 1) % shards
    assert packed(other, None) == {other: [(None, other)]}
    with pytest.raises(SpecError, match=rf"b'k3' has the partition .* belongs to shard {right} of"):
        packed(other)
    with pytest.raises(SpecError, match="1 rows have a null in the column 'partition'"):
        packed(None)
    for shard in (shards, -1, 2**31 - 1):
        with pytest.raises(
            SpecError, match=rf"partition {shard}, but the store has only the shards 0"
        ):
            packed(shard)
