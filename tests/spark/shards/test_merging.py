"""The merge of sorted streams: its order, and how many blocks it holds."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from kstore_core.spark.shards.merging import Block, merged


class Blocks:
    """A stream of blocks in memory that counts the rows that were loaded."""

    def __init__(self, name: int, blocks: list[list[int]], loaded: list[int]) -> None:
        self._blocks = [(keys, number) for number, keys in enumerate(blocks)]
        self._name = name
        self._loaded = loaded
        self._rows = 0

    @property
    def low(self) -> int | None:
        return self._blocks[0][0][0] if self._blocks else None

    def load(self) -> Block:
        keys, _ = self._blocks.pop(0)
        begin = self._rows
        self._rows += len(keys)
        self._loaded.append(len(keys))
        rows = pa.table({"at": [(self._name, number) for number in range(begin, self._rows)]})
        return Block(np.array(keys, np.int64), rows)


def cut(keys: list[int], size: int) -> list[list[int]]:
    return [keys[start : start + size] for start in range(0, len(keys), size)]


@given(
    st.lists(st.lists(st.integers(-5, 5)), max_size=4),
    st.integers(1, 4),
)
def test_rows_have_the_order_of_their_keys_and_then_of_their_streams(
    streams: list[list[int]], size: int
) -> None:
    ordered = [sorted(keys) for keys in streams]
    blocks = [Blocks(name, cut(keys, size), []) for name, keys in enumerate(ordered)]
    found = [
        (int(key), row["at"])
        for block in merged(blocks)
        for key, row in zip(block.keys, block.rows.to_pylist(), strict=True)
    ]
    wanted = [
        (key, [name, number])
        for name, keys in enumerate(ordered)
        for number, key in enumerate(keys)
    ]
    assert found == sorted(wanted)


def test_only_blocks_that_overlap_are_held() -> None:
    loaded: list[int] = []
    # Ten streams, of which each continues the one before; and all keys of the last are equal.
    streams = [cut(list(range(100 * n, 100 * n + 100)), 10) for n in range(10)]
    streams.append(cut([2000] * 100, 10))
    yielded, most = 0, 0
    for block in merged([Blocks(name, keys, loaded) for name, keys in enumerate(streams)]):
        most = max(most, sum(loaded) - yielded)
        yielded += len(block.keys)
    assert yielded == 1100
    assert most <= 20


def test_no_stream_has_no_rows() -> None:
    assert list(merged([])) == []
