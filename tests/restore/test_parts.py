"""Logs in parts that fit into memory."""

from __future__ import annotations

from pathlib import Path

from kstore_core.codec import RecordColumns
from kstore_core.restore.spool import SpooledParts, in_chunks, weight


def columns_of(first: int, count: int, keys: int) -> RecordColumns:
    columns = RecordColumns()
    for offset in range(first, first + count):
        columns.append(offset, offset, b"%04d" % (offset % keys), b"%06d" % offset)
    return columns


def test_chunks_are_as_large_as_may_be_and_know_their_offsets() -> None:
    batches = [columns_of(0, 3, 9), columns_of(5, 2, 9), columns_of(9, 4, 9)]
    chunks = [(len(records), behind) for records, behind in in_chunks(batches, 5 * (10 + 100))]
    assert chunks == [(5, 7), (4, 13)]
    assert [len(records) for records, _ in in_chunks(batches, 1)] == [3, 2, 4]
    assert list(in_chunks([], 1)) == []


def test_a_keys_records_are_in_one_part_in_order(tmp_path: Path) -> None:
    root = tmp_path / "parts"
    with SpooledParts(root, 4, 10**6) as spool:
        spool.add(columns_of(0, 500, 37))
        spool.add(columns_of(500, 500, 37))
        parts = list(spool)
        assert root.is_dir()
    assert not root.exists()
    assert len(parts) == 4
    _check(parts, 1000, 37)


def test_a_part_that_is_too_large_is_divided_again(tmp_path: Path) -> None:
    with SpooledParts(tmp_path / "parts", 2, 20_000) as spool:
        spool.add(columns_of(0, 1000, 200))
        parts = list(spool)
    assert len(parts) > 4
    assert max(map(weight, parts)) <= 40_000
    _check(parts, 1000, 200)


def test_a_key_is_never_divided(tmp_path: Path) -> None:
    with SpooledParts(tmp_path / "parts", 2, 50) as spool:
        spool.add(columns_of(0, 100, 1))
        parts = [part for part in spool if len(part)]
    assert len(parts) == 1
    _check(parts, 100, 1)


def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    root = tmp_path / "parts"
    (root / "part-0").mkdir(parents=True)
    (root / "part-0" / ("0" * 20 + ".log")).write_bytes(b"torn")
    with SpooledParts(root, 1, 1000) as spool:
        spool.add(columns_of(0, 3, 3))
        assert [len(part) for part in spool] == [3]


def _check(parts: list[RecordColumns], count: int, keys: int) -> None:
    seen: dict[bytes, list[int]] = {}
    for part in parts:
        found: dict[bytes, list[int]] = {}
        for record in part:
            assert record.timestamp == int(record.value)
            found.setdefault(record.key, []).append(record.timestamp)
        assert not found.keys() & seen.keys()
        seen |= found
    assert len(seen) == keys
    assert sorted(n for numbers in seen.values() for n in numbers) == list(range(count))
    assert all(numbers == sorted(numbers) for numbers in seen.values())
