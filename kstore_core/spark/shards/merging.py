"""A merge of sorted streams of rows that keeps only overlapping blocks in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["Block", "Stream", "merged"]


class Block(NamedTuple):
    """A piece of a stream: its rows, and their keys in ascending order."""

    keys: npt.NDArray[np.int64]
    rows: pa.Table


class Stream(Protocol):
    """A source of blocks whose keys ascend from block to block."""

    @property
    def low(self) -> int | None:
        """A lower bound of the keys of the next block, or None if all blocks were returned."""

    def load(self) -> Block:
        """Return the next block, which may be empty.

        After the call, ``low`` describes the block after the returned block.
        """


def merged(streams: Sequence[Stream]) -> Iterator[Block]:
    """Merge streams, and yield blocks with all rows in the order of their keys.

    If rows of several streams have equal keys, the rows are in the order of ``streams``. If rows of
    one stream have equal keys, the rows keep their order in the stream.
    """
    held: list[tuple[int, Block]] = []
    while True:
        unread = [(stream.low, at) for at, stream in enumerate(streams) if stream.low is not None]
        following = min(unread, default=None)
        ready, waiting = [], []
        for at, block in held:
            cut = len(block.keys)
            if following is not None:
                # If a row's key is equal to the lower bound of the next block, the order of the two
                # streams decides whether the row is before the rows of the block.
                side = "right" if at <= following[1] else "left"
                cut = int(np.searchsorted(block.keys, following[0], side))  # type: ignore[call-overload]
            if cut:
                ready.append((at, Block(block.keys[:cut], block.rows.slice(0, cut))))
            if cut < len(block.keys):
                waiting.append((at, Block(block.keys[cut:], block.rows.slice(cut))))
        held = waiting
        if ready:
            yield _sorted(ready)
        if following is None:
            return
        block = streams[following[1]].load()
        if len(block.keys):
            held.append((following[1], block))


def _sorted(blocks: list[tuple[int, Block]]) -> Block:
    if len(blocks) == 1:
        return blocks[0][1]
    parts = [block for _, block in sorted(blocks, key=itemgetter(0))]
    keys = np.concatenate([part.keys for part in parts])
    order = np.argsort(keys, kind="stable")
    rows = pa.concat_tables([part.rows for part in parts]).combine_chunks()
    return Block(keys[order], rows.take(pa.array(order)))
