"""Record batches, in every compression: as columns and one by one, and written again.

Most inputs would fail at a checksum, so there are checks that mend it first, and one that makes the
batch of its head and of records that it compresses.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from kstore_core.codec import (
    BatchHead,
    LogRecord,
    RecordColumns,
    decode_record_batches,
    decode_record_columns,
    encode_record_columns,
    find_batch,
    read_batch_head,
)
from kstore_core.codec.log.batch.checksum import crc32c
from kstore_core.codec.log.batch.compression import CODECS, compress, decompress
from kstore_core.errors import CorruptionError, FormatError, KStoreError, UnsupportedError
from tests.fuzz.family import Family, Refused, tried
from tests.support.golden import GOLDEN, lines

__all__ = ["FAMILY", "GOLDEN_BATCHES", "REFUSALS", "mended"]

REFUSALS: tuple[type[KStoreError], ...] = (CorruptionError, FormatError, UnsupportedError)
HEAD_BYTES, SUMMED_FROM, RECORDS_FROM = 61, 21, 61
_LENGTH, _MAGIC, _CRC = slice(8, 12), 16, slice(17, 21)


def check(data: bytes) -> None:
    """Any bytes."""
    columns = tried(decode_record_columns, data, refusals=REFUSALS)
    records, stopped_at, error = one_by_one(data)
    if isinstance(columns, Refused):
        assert type(error) is type(columns.error), "columns and records are refused alike"
        return
    assert error is None
    assert [as_tuple(record) for record in columns] == records
    assert columns.stopped_at == stopped_at
    heads, at = 0, 0
    while (head := read_batch_head(data, at, verify=True)) is not None:
        assert head.at == at
        heads, at = heads + (0 if head.control else head.record_count), at + head.size
    assert (heads, at) == (len(records), stopped_at)
    written_again(columns, records)


def one_by_one(data: bytes) -> tuple[list[Any], int, KStoreError | None]:
    """The records of the iterator, where it has stopped, and what it has raised."""
    batches, records = decode_record_batches(data), []
    try:
        for record in batches:
            records.append(as_tuple(record))
    except REFUSALS as error:
        return records, batches.stopped_at, error
    return records, batches.stopped_at, None


def as_tuple(record: LogRecord) -> tuple[Any, ...]:
    return record.offset, record.timestamp, record.key, record.value, list(record.headers)


def written_again(columns: RecordColumns, records: list[Any]) -> None:
    offsets = [record[0] for record in records]
    if not records or offsets != sorted(set(offsets)):
        return
    codec = CODECS[len(records) % len(CODECS)]
    again = decode_record_columns(encode_record_columns(columns, compression=codec))
    assert [as_tuple(record) for record in again] == records


def check_mended(data: bytes) -> None:
    """Bytes whose first batch has a fitting length and checksum."""
    check(mended(data))


def mended(data: bytes) -> bytes:
    """The bytes as one batch with the right length and checksum."""
    if len(data) < HEAD_BYTES:
        return data
    batch = bytearray(data)
    batch[_LENGTH] = struct.pack(">i", len(batch) - 12)
    batch[_MAGIC] = 2
    batch[_CRC] = struct.pack(">I", crc32c(bytes(batch[SUMMED_FROM:])))
    return bytes(batch)


def check_compressed(data: bytes) -> None:
    """A head, and records that are compressed as the head says."""
    if len(data) < HEAD_BYTES:
        return
    codec = data[22] & 7
    records = data[RECORDS_FROM:]
    if 0 < codec < len(CODECS):
        packed = compress(records, codec)
        assert decompress(packed, codec) == records
        records = packed
    check(mended(data[:RECORDS_FROM] + records))


def check_search(data: bytes) -> None:
    """A batch is found in any bytes, wherever it begins."""
    found = tried(find_batch, data, refusals=REFUSALS)
    if isinstance(found, int):
        head = read_batch_head(data, found, verify=True)
        assert isinstance(head, BatchHead)


def check_decompression(data: bytes) -> None:
    """Bytes of any kind, as those of each compression."""
    codec = 1 + (data[0] if data else 0) % (len(CODECS) - 1)
    tried(decompress, data[1:], codec, refusals=(FormatError,))


GOLDEN_BATCHES = [
    bytes.fromhex(case["bytes"])
    for case in lines(GOLDEN / "codec.jsonl")
    if case["kind"] == "record_batch_v2"
]
CHECKS: list[Callable[[bytes], None]] = [
    check, check_mended, check_compressed, check_search, check_decompression,
]  # fmt: skip


def _unpacked(batch: bytes) -> bytes:
    """A batch for `check_compressed`, which compresses the records itself."""
    codec = batch[22] & 7
    records = batch[RECORDS_FROM:]
    return batch[:RECORDS_FROM] + (decompress(records, codec) if codec else records)


def _plain(batch: bytes, codec: int) -> bytes:
    """The same batch in another compression."""
    return batch[:22] + bytes([batch[22] & ~7 | codec]) + batch[23:]


FAMILY = Family(
    "batches",
    CHECKS,
    [
        *((which, batch) for batch in GOLDEN_BATCHES for which in (0, 1, 3)),
        *((0, b"".join(GOLDEN_BATCHES[at : at + 3])) for at in range(4)),
        *(
            (2, _plain(_unpacked(batch), codec))
            for batch in GOLDEN_BATCHES
            if read_batch_head(batch, verify=True) is not None
            for codec in range(len(CODECS))
        ),
        *(
            (4, bytes([codec - 1]) + compress(batch, codec))
            for batch in GOLDEN_BATCHES[:5]
            for codec in range(1, len(CODECS))
        ),
    ],
    cost=4,
)
