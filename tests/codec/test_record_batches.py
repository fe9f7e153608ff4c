"""Record batches: what Kafka wrote, what anybody may draw, and bytes that nobody wrote."""

from __future__ import annotations

import pickle
import struct
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstore_core.codec import (
    Headers,
    LogRecord,
    RecordColumns,
    decode_record_batches,
    decode_record_columns,
    encode_compacted_batch,
    encode_headers,
    encode_record_batch,
    encode_record_columns,
    find_batch,
    log_to_arrow,
    log_to_rows,
    read_batch_head,
)
from kstore_core.codec.log.batch.checksum import crc32c
from kstore_core.codec.log.batch.compression import CODECS
from kstore_core.errors import CorruptionError, FormatError, KStoreError, UnsupportedError
from tests.codec.strategies import DRAFTS, Draft, records_of
from tests.support.golden import unhex
from tests.support.vectors import Case, golden_lines, pairs


def columns_of(records: list[LogRecord]) -> RecordColumns:
    columns = RecordColumns()
    for record in records:
        columns.append(record.offset, record.timestamp, record.key, record.value, record.headers)
    return columns


def resummed(batch: bytes) -> bytes:
    """The batch with the checksum and the length that its bytes ask for."""
    head = batch[:8] + struct.pack(">i", len(batch) - 12) + batch[12:17]
    return head + struct.pack(">I", crc32c(batch[21:])) + batch[21:]


# ---------------------------------------------------------------- Kafka's


@golden_lines("record_batch_v2")
def test_golden(case: Case) -> None:
    data = bytes.fromhex(case["bytes"])
    records = [
        LogRecord(
            r["offset"], r["timestamp"], unhex(r["key"]), unhex(r["value"]), pairs(r["headers"])
        )
        for r in case["records"]
    ]
    log_append = case["timestamp_type"] == "LogAppendTime"
    again = encode_record_batch(
        records,
        compression=case["compression"],
        timestamp_type="log_append" if log_append else "create",
        log_append_time=case["log_append_time"],
        leader_epoch=case["partition_leader_epoch"],
        producer_id=case["producer_id"],
        producer_epoch=case["producer_epoch"],
        base_sequence=case["base_sequence"],
        transactional=case["transactional"],
    )
    if case["compression"] in ("none", "snappy"):  # others compress as their library likes
        assert again.hex() == data.hex()
    if log_append:
        time = case["log_append_time"]
        records = [LogRecord(r.offset, time, r.key, r.value, r.headers) for r in records]
    for batch in (data, again):
        found = decode_record_batches(batch)
        assert list(found) == records
        assert found.stopped_at == len(batch)
        assert list(decode_record_columns(batch)) == records
    head = read_batch_head(data, verify=True)
    assert head is not None
    assert (head.at, head.size, head.compression) == (0, len(data), case["compression"])
    assert (head.base_offset, head.last_offset) == (records[0].offset, records[-1].offset)
    assert (head.max_timestamp, head.transactional) == (
        case["max_timestamp"],
        case["transactional"],
    )
    assert (head.producer_id, head.producer_epoch) == (case["producer_id"], case["producer_epoch"])
    assert (head.leader_epoch, head.control) == (case["partition_leader_epoch"], False)
    assert (head.record_count, head.delete_horizon_ms) == (len(records), None)


@golden_lines("malformed", targets={"record_batch_v2"})
def test_malformed(case: Case) -> None:
    data = bytes.fromhex(case["input"])
    if case["note"] == "truncated tail":
        found = decode_record_batches(data)
        assert list(found) == []
        assert found.stopped_at == 0
        return
    with pytest.raises(CorruptionError, match="record batch at byte 0"):
        list(decode_record_batches(data))
    if len(data) > 20 and data[16] == 2 and case["note"] not in ("crc flipped", "batch length 5"):
        with pytest.raises(FormatError, match="record batch at byte 0, offset 0") as caught:
            list(decode_record_batches(resummed(data)))  # wrong, and sealed as right
        assert caught.value.offset == 0


def test_the_example_of_the_docs() -> None:
    records = [
        LogRecord(100, 1_700_000_000_000, b"k", b"v"),
        LogRecord(101, 1_700_000_000_005, b"k", None, [("a", b"1")]),
    ]
    assert encode_record_batch(records).hex(" ") == (
        "00 00 00 00 00 00 00 64 00 00 00 46 ff ff ff ff 02 9e bb f9 ff 00 00 00 00 00 01 "
        "00 00 01 8b cf e5 68 00 00 00 01 8b cf e5 68 05 ff ff ff ff ff ff ff ff ff ff "
        "ff ff ff ff 00 00 00 02 10 00 00 00 02 6b 02 76 00 16 00 0a 02 02 6b 01 02 02 61 02 31"
    )


# ---------------------------------------------------------------- round trips


@pytest.mark.parametrize("compression", CODECS)
@given(drafts=DRAFTS.filter(bool), start=st.integers(0, 2**60), batch_bytes=st.integers(0, 400))
def test_what_is_encoded_is_decoded(
    compression: str, drafts: list[Draft], start: int, batch_bytes: int
) -> None:
    records = records_of(drafts, start)
    one = encode_record_batch(records, compression=compression)
    many = encode_record_columns(
        columns_of(records), batch_bytes=batch_bytes, compression=compression
    )
    for data in (one, many):
        assert list(decode_record_batches(data)) == records
        columns = decode_record_columns(data)
        assert list(columns) == records
        assert columns.next_offset == records[-1].offset + 1
        assert columns.stopped_at == len(data)
        assert list(columns.offsets) == [record.offset for record in records]
        assert list(columns.timestamps) == [record.timestamp for record in records]
        assert columns.keys == [record.key for record in records]
        assert columns.values == [record.value for record in records]
        assert list(columns.tombstones) == [record.value is None for record in records]
        for from_offset in (records[0].offset, records[-1].offset, records[-1].offset + 1):
            later = [record for record in records if record.offset >= from_offset]
            assert list(decode_record_columns(data, from_offset=from_offset)) == later
    assert decode_record_columns(many).payload_bytes == sum(
        len(r.key or b"") + len(r.value or b"") + len(encode_headers(r.headers)) for r in records
    )


@given(drafts=DRAFTS.filter(bool), more=st.binary(min_size=1, max_size=200))
def test_a_torn_tail_tells_where_it_begins(drafts: list[Draft], more: bytes) -> None:
    records = records_of(drafts)
    whole = encode_record_batch(records)
    torn = encode_record_batch([LogRecord(10**6, 0, b"k", more)])
    for cut in range(0, len(torn), 7):
        found = decode_record_batches(bytearray(whole + torn[:cut]))
        assert list(found) == records
        assert found.stopped_at == len(whole)
        assert decode_record_columns(whole + torn[:cut]).stopped_at == len(whole)
        assert read_batch_head(whole + torn[:cut], len(whole)) is None


def test_a_batch_is_limited_but_for_its_first_record() -> None:
    records = [LogRecord(offset, 0, b"k", b"v" * 100) for offset in range(50)]
    data = encode_record_columns(columns_of(records), batch_bytes=400, base_sequence=2**31 - 2)
    at, sequence, heads = 0, 2**31 - 2, 0
    while (head := read_batch_head(data, at, verify=True)) is not None:
        assert head.size <= 400
        assert head.base_sequence == sequence
        sequence = (sequence + head.record_count) % 2**31
        at, heads = at + head.size, heads + 1
    assert heads == 17
    assert len(encode_record_columns(columns_of(records), batch_bytes=0)) == 50 * (61 + 110)
    assert encode_record_columns(RecordColumns()) == b""


def test_offsets_far_apart_take_two_batches() -> None:
    far = [LogRecord(0, 0, b"a", b"1"), LogRecord(2**31, 0, b"b", b"2")]
    assert list(decode_record_batches(encode_record_columns(columns_of(far)))) == far
    with pytest.raises(ValueError, match="record 1 does not fit the batch"):
        encode_record_batch(far)


def test_control_batches_give_no_records() -> None:
    marker = LogRecord(7, 5, struct.pack(">hh", 0, 1), struct.pack(">hi", 0, 3))
    batch = bytearray(encode_record_batch([marker], producer_id=1, transactional=True))
    batch[22] |= 0x20
    data = encode_record_batch([LogRecord(6, 0, b"k", b"v")]) + resummed(bytes(batch))
    columns = decode_record_columns(data)
    assert columns.keys == [b"k"]
    assert columns.next_offset == 8
    head = read_batch_head(data, 70)
    assert head is not None
    assert head.control
    assert head.transactional


def test_what_compaction_leaves_keeps_its_place() -> None:
    records = [LogRecord(offset, offset, b"k", None) for offset in range(5, 10)]
    before = read_batch_head(
        encode_record_batch(records, compression="zstd", producer_id=4, base_sequence=9)
    )
    assert before is not None
    data = encode_compacted_batch(columns_of(records[1:3]), before, delete_horizon_ms=77)
    after = read_batch_head(data)
    assert after is not None
    assert after._replace(size=0) == before._replace(
        size=0, delete_horizon_ms=77, record_count=2, max_timestamp=7
    )
    assert list(decode_record_batches(data)) == records[1:3]
    empty = encode_compacted_batch(RecordColumns(), before)
    columns = decode_record_columns(empty)
    assert (len(empty), len(columns), columns.next_offset) == (61, 0, 10)
    with pytest.raises(ValueError, match="outside the offsets of the original batch, 5 to 9"):
        encode_compacted_batch(columns_of([LogRecord(10, 0, b"k", b"v")]), before)


# ---------------------------------------------------------------- damage


@pytest.mark.parametrize("compression", CODECS)
def test_every_flipped_byte_is_noticed(compression: str) -> None:
    """But those that the checksum leaves out and nothing contradicts: base offset and epoch."""
    records = [
        LogRecord(offset, 9, b"k%d" % offset, b"v" * 9, [("h", b"x")]) for offset in range(4)
    ]
    first = encode_record_batch(records, compression=compression)
    data = first + encode_record_batch([LogRecord(4, 9, b"k", b"v")])
    for at in range(len(first)):
        for bit in range(8):
            bad = bytearray(data)
            bad[at] ^= 1 << bit
            try:
                columns = decode_record_columns(bad)
            except (CorruptionError, FormatError, UnsupportedError):
                continue
            if 8 <= at < 12:  # a longer batch looks torn; what follows tells that it is not
                assert columns.stopped_at == 0
                assert find_batch(bytes(bad), 1, min_offset=4) == len(first)
            else:
                assert at < 16
                assert columns.keys == [*[record.key for record in records], b"k"]


@given(data=st.binary(max_size=300), at=st.integers(0, 300), sealed=st.booleans())
def test_random_bytes_never_crash(data: bytes, at: int, sealed: bool) -> None:
    batch = encode_record_batch([LogRecord(3, 1, b"key", b"value", [("h", None)])])
    cut = 61 + at % (len(batch) - 61)
    for bad in (data, batch[:at] + data, batch[:cut] + data):
        if sealed and len(bad) >= 61:
            bad = resummed(bad)
        try:
            for record in decode_record_batches(bad):
                list(record.headers)
        except KStoreError:
            pass
        find_batch(bad)


@pytest.mark.parametrize("codec", range(1, 8))
@given(data=st.binary(max_size=200))
def test_a_sealed_batch_of_bytes_that_no_codec_wrote(codec: int, data: bytes) -> None:
    batch = bytearray(encode_record_batch([LogRecord(3, 1, b"key", b"value")])[:61] + data)
    batch[22] = codec
    with pytest.raises(FormatError, match="record batch at byte 0, offset 3"):
        decode_record_columns(resummed(bytes(batch)))


@pytest.mark.parametrize("head", [b"", b"\x82SNAPPY\0\0\0\0\1\0\0\0\1\0\0\0\x0a"])
def test_a_size_that_snappy_cannot_have_is_not_allocated(head: bytes) -> None:
    batch = bytearray(encode_record_batch([LogRecord(0, 0, b"k", b"v")])[:61])
    batch[22] = 2
    data = resummed(bytes(batch) + head + b"\xff\xff\xff\xff\x0fabcde")
    with pytest.raises(FormatError, match="a block of 10 bytes cannot contain 4294967295 bytes"):
        decode_record_columns(data)


@pytest.mark.parametrize(
    ("records", "count", "last", "why"),
    [
        ("10 00 00 00 02 6b 02 76 00", -1, 0, "cannot contain -1 records"),
        ("10 00 00 00 02 6b 02 76 00", 2**31 - 1, 0, "cannot contain 2147483647 records"),
        ("10 00 00 00 02 6b 02 76 00", 0, 0, "9 bytes follow the last record"),
        ("10 00 00 02 02 6b 02 76 00", 1, 0, "record 0 has an offset out of order"),
        ("10 00 00 01 02 6b 02 76 00", 1, 5, "record 0 has an offset out of order"),
        ("10 00 00 00 03 6b 02 76 00", 1, 0, "record 0: negative size -2"),
        ("10 00 00 00 20 6b 02 76 00", 1, 0, "record 0: a size says 16 bytes, but 4 are left"),
        ("10 00 00 00 02 6b 02 76 01", 1, 0, "record 0: negative header count -1"),
        ("10 00 00 00 02 6b 02 76 02", 1, 0, "record 0: a count says 1 headers"),
        ("12 00 00 00 02 6b 02 76 00 00", 1, 0, "record 0: 1 bytes are left after the last header"),
        ("00 00 00 00 00 00 00 00", 1, 0, "record 0: a field of 1 bytes is cut short"),
        ("01 00 00 00 00 00 00 00", 1, 0, "record 0: negative size -1"),
        ("16 00 ff ff ff ff ff ff ff ff ff ff", 1, 0, "record 0: a varint is too long"),
    ],
)
def test_malformed_records_are_refused(records: str, count: int, last: int, why: str) -> None:
    batch = bytearray(encode_record_batch([LogRecord(0, 0, b"k", b"v")])[:61])
    struct.pack_into(">i", batch, 23, last)
    struct.pack_into(">i", batch, 57, count)
    with pytest.raises(FormatError, match=why):
        decode_record_columns(resummed(bytes(batch) + bytes.fromhex(records)))


def test_batches_out_of_order_are_damage() -> None:
    data = encode_record_batch([LogRecord(5, 0, b"k", b"v")])
    with pytest.raises(
        CorruptionError, match="byte 70: the offsets of the batch are 5 to 5, but must be 6 or"
    ):
        decode_record_columns(data + data)


@pytest.mark.parametrize(("base", "last"), [(-1, 0), (0, -1), (2**63 - 1, 1)])
def test_offsets_that_cannot_be_are_damage(base: int, last: int) -> None:
    batch = bytearray(encode_record_batch([LogRecord(0, 0, b"k", b"v")]))
    struct.pack_into(">q", batch, 0, base)
    struct.pack_into(">i", batch, 23, last)
    for from_offset in (None, 5):
        with pytest.raises(CorruptionError, match="or greater"):
            decode_record_columns(resummed(bytes(batch)), from_offset=from_offset)


@pytest.mark.parametrize("magic", [0, 1])
def test_older_formats_are_named(magic: int) -> None:
    batch = bytearray(encode_record_batch([LogRecord(0, 0, b"k", b"v")]))
    batch[16] = magic
    with pytest.raises(UnsupportedError, match=f"message format v{magic}, of Kafka before 0.11"):
        list(decode_record_batches(batch))


@pytest.mark.parametrize(
    ("module", "compression", "remedy"),
    [("google_crc32c", "none", "google-crc32c"), ("cramjam", "lz4", "cramjam")],
)
def test_a_library_that_is_missing_is_named(
    module: str, compression: str, remedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setattr("kstore_core.codec.log.batch.checksum._compute", None)
    with pytest.raises(UnsupportedError, match=rf"{remedy}.*pip install 'google-crc32c"):
        encode_record_batch([LogRecord(0, 0, b"k", b"v")], compression=compression)


# ---------------------------------------------------------------- arguments and values


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"compression": "brotli"}, ValueError, "one of none, gzip, snappy, lz4, zstd"),
        ({"timestamp_type": "later"}, ValueError, "'create' or 'log_append'"),
        ({"producer_epoch": 2**15}, OverflowError, "does not fit 16 bits"),
        ({"leader_epoch": 2**31}, OverflowError, "does not fit a signed integer of 32 bits"),
        ({"producer_id": 1.5}, TypeError, "must be an int, not float"),
    ],
)
def test_bad_options_are_refused(
    options: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        encode_record_batch([LogRecord(0, 0, b"k", b"v")], **options)


def test_bad_records_are_refused() -> None:
    with pytest.raises(ValueError, match="records is empty"):
        encode_record_batch([])
    with pytest.raises(TypeError, match="a record must be a LogRecord, not tuple"):
        encode_record_batch([(0, 0, b"k", b"v")])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="the offset must be 4 or greater, not 3"):
        encode_record_batch([LogRecord(3, 0, b"k", b"v")] * 2)
    with pytest.raises(ValueError, match="the offset must be 0 or greater, not -1"):
        encode_record_batch([LogRecord(-1, 0, b"k", b"v")])
    with pytest.raises(TypeError, match="value must be bytes-like or None, not str"):
        LogRecord(0, 0, b"k", "v")  # type: ignore[arg-type]
    with pytest.raises(FormatError, match="lone surrogate"):
        encode_record_batch([LogRecord(0, 0, b"k", b"v", [("\ud800", b"")])])
    with pytest.raises(ValueError, match="byte 3 is outside the 2 bytes"):
        read_batch_head(b"ab", 3)


def test_a_log_record_is_a_value() -> None:
    record = LogRecord(1, 2, bytearray(b"k"), memoryview(b"v"), [("h", b"x")])
    assert record == LogRecord(1, 2, b"k", b"v", Headers([("h", b"x")]))
    assert record != LogRecord(1, 2, b"k", None, [("h", b"x")])
    assert record != (1, 2, b"k", b"v", [("h", b"x")])
    assert pickle.loads(pickle.dumps(record)) == record
    assert repr(record) == "LogRecord(1, 2, b'k', b'v', Headers([('h', b'x')]))"
    with pytest.raises(TypeError, match="create a new LogRecord"):
        record.__init__(1, 2, None, None)  # type: ignore[misc]
    match record:
        case LogRecord(offset, _, key):
            assert (offset, key) == (1, b"k")


def test_columns_are_a_sequence() -> None:
    records = [LogRecord(offset, 0, b"k", b"v" * offset, [("h", b"x")]) for offset in range(4)]
    columns = columns_of(records)
    assert (len(columns), columns[0], columns[-1]) == (4, records[0], records[3])
    assert repr(columns) == "<RecordColumns: 4 records before offset 4>"
    for index in (4, -5):
        with pytest.raises(IndexError, match="there are 4 records"):
            columns[index]
    some = columns.chosen(bytes([1, 0, 0, 1]))
    del columns
    assert list(some) == [records[0], records[3]]
    with pytest.raises(ValueError, match="mask has 1 bytes, but there are 2 records"):
        some.chosen(b"\1")
    some.extend(some, 10)
    assert [(record.offset, record.value) for record in some] == [
        (0, b""),
        (3, b"vvv"),
        (10, b""),
        (11, b"vvv"),
    ]
    with pytest.raises(ValueError, match="must be 12 or greater, not 11"):
        some.extend(some, 11)
    some.extend(RecordColumns(), 0)
    assert len(some) == 4


@given(
    st.lists(
        st.tuples(
            st.none() | st.binary(max_size=3),
            st.none() | st.binary(max_size=3),
            st.lists(st.tuples(st.text("ab", max_size=2), st.none() | st.binary(max_size=2))),
        )
    )
)
def test_packed_columns_hold_the_same(parts: list[tuple[Any, Any, Any]]) -> None:
    records = [LogRecord(3 * at, at, *record) for at, record in enumerate(parts)]
    columns = columns_of(records)
    figures = columns.next_offset, columns.stopped_at, columns.payload_bytes
    packed = columns.packed().packed()
    del columns
    assert list(packed) == records
    assert (packed.next_offset, packed.stopped_at, packed.payload_bytes) == figures
    packed.append(packed.next_offset + 1, 0, b"", None)
    packed.extend(packed, packed.next_offset)
    assert len(packed) == 2 * len(records) + 2


def test_nothing_is_taken_for_columns() -> None:
    head = read_batch_head(encode_record_batch([LogRecord(0, 0, b"k", b"v")]))
    for wrong in (None, [], b""):
        for call in (
            encode_record_columns,
            lambda columns: encode_compacted_batch(columns, head),  # type: ignore[arg-type]
            lambda columns: log_to_rows(columns, "plain"),
            lambda columns: log_to_arrow(columns, "plain"),
            lambda columns: RecordColumns().extend(columns, 0),
        ):
            with pytest.raises(TypeError):
                call(wrong)  # type: ignore[arg-type]
