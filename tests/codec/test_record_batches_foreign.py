"""Record batches against kafka-python's own parser and builder, and its compression libraries."""

from __future__ import annotations

import gzip

import lz4.frame
import pytest
import snappy
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from kstore_core.codec import decode_record_batches, encode_record_batch
from kstore_core.codec.log.batch.compression import CODECS, compress, decompress
from tests.codec.strategies import BYTES, HEADERS, Draft, records_of
from tests.support.kafka_python import MemoryRecordsBuilder, read_by_kafka_python

CODEC_IDS = range(len(CODECS))
MAYBE = st.none() | BYTES
DRAFTS = st.lists(
    st.tuples(st.just(1), st.integers(0, 2**61), MAYBE, MAYBE, HEADERS), min_size=1, max_size=10
)


@pytest.mark.parametrize("compression", CODECS)
@given(drafts=DRAFTS, offset=st.integers(0, 2**60))
def test_kafka_python_reads_what_is_written(
    compression: str, drafts: list[Draft], offset: int
) -> None:
    records = records_of(drafts, offset)
    assert read_by_kafka_python(encode_record_batch(records, compression=compression)) == records


@pytest.mark.parametrize("codec", CODEC_IDS)
@given(drafts=DRAFTS)
def test_what_kafka_python_writes_is_read(codec: int, drafts: list[Draft]) -> None:
    builder = MemoryRecordsBuilder(magic=2, compression_type=codec, batch_size=2**20)
    for _, timestamp, key, value, headers in drafts:
        builder.append(timestamp, key, value, headers)
    builder.close()
    found = decode_record_batches(builder.records()._buffer)
    assert list(found) == records_of(drafts, -1)


@given(drafts=DRAFTS, time=st.integers(0, 2**61))
def test_log_append_time_is_everybodys(drafts: list[Draft], time: int) -> None:
    data = encode_record_batch(
        records_of(drafts), timestamp_type="log_append", log_append_time=time
    )
    assert {record.timestamp for record in read_by_kafka_python(data)} == {time}


# ---------------------------------------------------------------- the libraries themselves

BLOBS = st.binary(max_size=200) | st.integers(1, 200_000).map(lambda size: b"abcdefg" * (size // 7))


@given(data=BLOBS)
def test_other_libraries_read_what_is_compressed(data: bytes) -> None:
    assert gzip.decompress(compress(data, 1)) == data
    assert zstandard.ZstdDecompressor().decompressobj().decompress(compress(data, 4)) == data
    frame = compress(data, 3)
    assert lz4.frame.decompress(frame) == data
    assert not lz4.frame.get_frame_info(frame)["block_linked"]  # Kafka's Java clients refuse those


@given(data=BLOBS)
def test_what_other_libraries_compress_is_read(data: bytes) -> None:
    assert decompress(gzip.compress(data), 1) == data
    assert decompress(zstandard.compress(data), 4) == data
    for linked in (False, True):
        for size in (False, True):
            frame = lz4.frame.compress(data, block_linked=linked, store_size=size)
            assert decompress(frame, 3) == data
    assert decompress(snappy.compress(data), 2) == data  # one raw block, as librdkafka writes it


@given(data=BLOBS)
def test_the_stream_of_snappy_java(data: bytes) -> None:
    framed = compress(data, 2)
    assert framed.startswith(b"\x82SNAPPY\0\0\0\0\1\0\0\0\1")
    blocks, here = [], 16
    while here < len(framed):
        size = int.from_bytes(framed[here : here + 4], "big")
        blocks.append(snappy.uncompress(framed[here + 4 : here + 4 + size]))
        here += 4 + size
    assert b"".join(blocks) == data
    assert all(len(block) <= 32 * 1024 for block in blocks)
    assert decompress(framed, 2) == data
