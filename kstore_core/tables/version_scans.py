"""Scans of a versioned table that return keys with their versions, latest or as of a time."""

from __future__ import annotations

import heapq
import struct
from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from kstore_core.codec import decode_latest, segment_rows
from kstore_core.tables.base import Bounds, Table

__all__ = [
    "LATEST_PREFIX",
    "Version",
    "VersionChunk",
    "scan_as_of",
    "scan_latest",
    "version_at",
    "within",
]

LATEST_PREFIX = b"\xff" * 8
"""The prefix of the rows that store latest versions: the segment id -1."""

_ID = struct.Struct(">q")

Version = tuple[bytes, int, int | None]
"""The value of a version, its valid-from (ms, inclusive) and its valid-to (ms, exclusive).

The valid-to of the latest version is None. Every read of a version creates such a tuple. It is a
plain tuple, because the creation of a plain tuple is fastest.
"""


VersionChunk = tuple[list[bytes], list[Version]]
"""A list of keys and a list with one version for each of these keys."""


def scan_latest(rows: Table, bounds: Bounds) -> Iterator[VersionChunk]:
    """Return an iterator of keys with their latest versions, in key order.

    Writes that follow this call do not change the result.
    """
    chunks = rows.scan(within(LATEST_PREFIX, bounds))
    return (
        (
            [key[8:] for key in keys],
            [(value, timestamp, None) for timestamp, value in map(decode_latest, values)],
        )
        for keys, values in chunks
    )


def scan_as_of(
    rows: Table, prefixes: Iterable[bytes], bounds: Bounds, as_of: int
) -> Iterator[VersionChunk]:
    """Return an iterator of keys with the versions that were valid at a time, in key order.

    Writes that follow this call do not change the result.

    Parameters
    ----------
    rows : Table
        The table of the stored rows.
    prefixes : iterable of bytes
        The prefixes of the segments to read. The prefix of the newest segment must come first.
    bounds : Bounds
        The range of keys to read, and the direction.
    as_of : int
        The time in ms.
    """
    streams = [
        _stream(order, rows.scan(within(prefix, bounds)))
        for order, prefix in enumerate([LATEST_PREFIX, *prefixes])
    ]
    return _pick(_merge(streams, reverse=bounds.reverse), as_of)


class _Row(NamedTuple):
    key: bytes
    order: int  # 0 for the latest version, 1 for the newest segment, 2 for the next older one, …
    row: bytes


def within(prefix: bytes, bounds: Bounds) -> Bounds:
    """Convert bounds of user keys to bounds of stored keys, which begin with ``prefix``."""
    end = None if prefix == LATEST_PREFIX else (_ID.unpack(prefix)[0] + 1).to_bytes(8, "big")
    return Bounds(
        prefix + (bounds.lo or b""),
        end if bounds.hi is None else prefix + bounds.hi,
        bounds.reverse,
    )


def _stream(order: int, chunks: Iterator[tuple[list[bytes], list[bytes]]]) -> Iterator[_Row]:
    for keys, rows in chunks:
        for key, row in zip(keys, rows, strict=True):
            yield _Row(key[8:], order, row)


def _merge(streams: list[Iterator[_Row]], *, reverse: bool) -> Iterator[list[_Row]]:
    """Yield the rows of each key as a list, in key order. The newest row of a key comes first."""
    by_key, by_order = attrgetter("key"), attrgetter("order")
    for _, group in groupby(heapq.merge(*streams, key=by_key, reverse=reverse), by_key):
        yield sorted(group, key=by_order)


def _pick(groups: Iterator[list[_Row]], as_of: int) -> Iterator[VersionChunk]:
    for group in groups:
        for key, order, row in group:
            if order == 0:
                timestamp, value = decode_latest(row)
                if timestamp <= as_of:
                    yield [key], [(value, timestamp, None)]
                    break
            elif segment_rows.next_timestamp(row) <= as_of:
                break
            elif segment_rows.min_timestamp(row) <= as_of:
                version = version_at(row, as_of)
                if version is not None:
                    yield [key], [version]
                break


def version_at(row: bytes, as_of: int) -> Version | None:
    """Return the version in a segment row that was valid at ``as_of`` (ms), or None if deleted."""
    _, valid_from, valid_to, value = segment_rows.find(row, as_of)
    return None if value is None else (value, valid_from, valid_to)
