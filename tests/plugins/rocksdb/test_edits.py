"""Edits with every field that RocksDB has ever written, and what a manifest makes of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from kstore_rocksdb.files.edits import Blob, Edit, Table, UnknownEditError, read_edits
from kstore_rocksdb.files.manifest import Manifest, file_faults

IGNORABLE = 1 << 13
PASSED_OVER = {
    "comparator": (1, b"\x07leveldb"),
    "compaction cursor": (5, b"\x01\x03key"),
    "previous log": (9, b"\x00"),
    "oldest log to keep": (10, b"\x05"),
    "largest family": (203, b"\x03"),
    "database id": (IGNORABLE + 1, b"\x04uuid"),
    "log, of 2020": (IGNORABLE + 4, b"\x08\x02\x80\x01\x01"),
    "log gone, of 2020": (IGNORABLE + 5, b"\x08"),
    "history of user timestamps": (IGNORABLE + 6, b"\x08" + bytes(8)),
    "log": (IGNORABLE + 7, b"\x05\x08\x02\x80\x01\x01"),
    "log gone": (IGNORABLE + 8, b"\x01\x08"),
    "user timestamps": (IGNORABLE + 9, b"\x01\x01"),
    "progress of a compaction": (IGNORABLE + 10, b"\x03\x02\x00\x01"),
    "size of the last manifest": (IGNORABLE + 11, b"\x02\x80\x01"),
    "one of later": (IGNORABLE + 4000, b"\x02\x00\x01"),
    "one of much later": (IGNORABLE * 3 + 5, b"\x02\x00\x01"),
}
KEYS = b"\x01a\x01b"


def varint(number: int) -> bytes:
    found = b""
    while number >= 0x80:
        found += bytes([number & 0x7F | 0x80])
        number >>= 7
    return found + bytes([number])


def tagged(tag: int, *parts: int | bytes) -> bytes:
    return varint(tag) + b"".join(p if isinstance(p, bytes) else varint(p) for p in parts)


def logged(*records: bytes) -> bytes:
    """A log of records that are not cut in parts; checksums are left out."""
    return b"".join(bytes(4) + len(r).to_bytes(2, "little") + b"\x01" + r for r in records)


def read(*records: bytes) -> list[Edit]:
    return list(read_edits(logged(*records)))


@pytest.mark.parametrize(("tag", "content"), PASSED_OVER.values(), ids=PASSED_OVER)
def test_fields_of_no_account_are_passed_over(tag: int, content: bytes) -> None:
    record = tagged(3, 11) + tagged(tag, content) + tagged(200, 2) + tagged(202)
    assert read(record) == [Edit(family=2, drops=True, next_file=11)]


@pytest.mark.parametrize(
    ("record", "table"),
    [
        (tagged(7, 0, 9, 1000, KEYS), Table(1000)),
        (tagged(100, 0, 9, 1000, KEYS, 1, 7), Table(1000)),
        (tagged(102, 0, 9, 3, 1000, KEYS, 1, 7), Table(1000, path=3)),
        (tagged(103, 0, 9, 1000, KEYS, 1, 7, 5, 1, 0, 12, 2, 0, 0, 1), Table(1000)),
        (tagged(103, 0, 9, 1000, KEYS, 1, 7, 4, 2, 300, 65, 1, 2, 1), Table(1000, 300, 2)),
    ],
)
def test_table_files(record: bytes, table: Table) -> None:
    family = tagged(200, 1)
    assert read(record + family) == [Edit(family=1, tables={9: table})]


@pytest.mark.parametrize("tags", [(400, 401), (IGNORABLE + 2, IGNORABLE + 3)])
def test_files_of_blobs(tags: tuple[int, int]) -> None:
    added = tagged(tags[0], 9, 3, 1000, b"\x00\x00", 1, 2, 0, 0, 0)
    garbage = tagged(tags[1], 9, 2, 600, 0)
    assert read(added, garbage) == [
        Edit(blobs={9: Blob(1062, 3)}),
        Edit(garbage={9: 2}),
    ]
    manifest = Manifest(1)
    for edit in read(added, tagged(103, 0, 12, 50, KEYS, 1, 7, 4, 1, 9, 1)):
        manifest.apply(edit)
    assert manifest.live == {"000009.blob": 1062, "000012.sst": 50}
    for edit in read(garbage, garbage):  # more than there are: it goes when no table needs it
        manifest.apply(edit)
    assert "000009.blob" in manifest.live
    for edit in read(tagged(6, 0, 12)):
        manifest.apply(edit)
    assert manifest.live == {}


def test_groups_count_whole_or_not_at_all() -> None:
    group = [tagged(3, 20 + number) + tagged(300, 2 - number) for number in range(3)]
    assert [edit.next_file for edit in read(tagged(3, 7), *group)] == [7, 20, 21, 22]
    assert [edit.next_file for edit in read(tagged(3, 7), *group[:2])] == [7]


def test_what_must_not_be_passed_over_ends_the_look_not_the_store(tmp_path: Path) -> None:
    with pytest.raises(UnknownEditError, match="tag 500"):
        read(tagged(500, 1))
    with pytest.raises(UnknownEditError, match="kind 9"):
        list(read_edits(bytes(4) + b"\x00\x00\x09"))
    (tmp_path / "CURRENT").write_text("MANIFEST-000001\n")
    for record in (tagged(500, 1), tagged(3, 7) + tagged(200, 4)):  # and a family that is not there
        (tmp_path / "MANIFEST-000001").write_bytes(logged(record))
        assert file_faults(tmp_path) == []


def test_a_table_in_another_directory_is_not_missed(tmp_path: Path) -> None:
    (tmp_path / "CURRENT").write_text("MANIFEST-000001\n")
    (tmp_path / "MANIFEST-000001").write_bytes(logged(tagged(102, 0, 9, 1, 1000, KEYS, 1, 7)))
    assert file_faults(tmp_path) == []
