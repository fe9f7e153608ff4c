"""Functions that compress and decompress the records of a batch as Kafka's clients do.

zlib implements gzip. cramjam implements snappy, lz4 and zstd, and is imported at the first use.
"""

from __future__ import annotations

import struct
import zlib
from typing import Any

from kstore_core.errors import FormatError, UnsupportedError
from kstore_core.hints import install

__all__ = ["CODECS", "codec_id", "compress", "decompress"]

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
"""The names of the codecs. The index of a codec is its number in the attributes of a batch."""

_GZIP_FORM = zlib.MAX_WBITS | 16
_GZIP, _SNAPPY, _LZ4 = 1, 2, 3
_LZ4_LEVEL, _ZSTD_LEVEL = 1, 3
_MOST_BYTES = 2**31 - 1

# Kafka uses the stream format of snappy-java. A stream begins with magic bytes, the version of the
# format, and the oldest version that can read it. Blocks of raw snappy follow, each with its size.
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEAD = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES = 32 * 1024

_SNAPPY_MOST = 22
"""The greatest ratio of decompressed to compressed size in snappy: 3 bytes can encode 64 bytes."""

_size = struct.Struct(">i")


def codec_id(name: str) -> int:
    """Return the number of the codec with this name.

    Raises
    ------
    ValueError
        If no codec has this name.
    """
    try:
        return CODECS.index(name)
    except ValueError:
        raise ValueError(f"compression must be one of {', '.join(CODECS)}, not {name!r}") from None


def compress(data: bytes, codec: int) -> bytes:
    """Compress the records of a batch. `codec` must be a number from 1 to 4."""
    if codec == _GZIP:
        deflate = zlib.compressobj(wbits=_GZIP_FORM)
        return deflate.compress(data) + deflate.flush()
    library = _library(codec)
    if codec == _SNAPPY:
        return _to_xerial(data, library.snappy)
    if codec == _LZ4:
        return _to_lz4(data, library.lz4)
    return bytes(library.zstd.compress(data, level=_ZSTD_LEVEL))


def decompress(data: bytes, codec: int) -> bytes:
    """Decompress the records of a batch. `codec` must be a number from 1 to 4.

    Raises
    ------
    FormatError
        If the codec cannot decompress the bytes.
    UnsupportedError
        If the library of the codec is not installed.
    """
    if codec == _GZIP:
        return _from_gzip(data)
    library = _library(codec)
    try:
        if codec == _SNAPPY:
            return _from_snappy(data, library.snappy)
        return bytes((library.lz4 if codec == _LZ4 else library.zstd).decompress(data))
    except library.DecompressionError as error:
        raise FormatError(f"{CODECS[codec]}: {error}") from error


def _library(codec: int) -> Any:
    try:
        import cramjam
    except ImportError as error:
        raise UnsupportedError(
            f"the compression {CODECS[codec]!r} needs the package cramjam, which is not installed: "
            + install("changelog")
        ) from error
    return cramjam


def _from_gzip(data: bytes) -> bytes:
    inflate = zlib.decompressobj(wbits=_GZIP_FORM)
    try:
        records = inflate.decompress(data, _MOST_BYTES)
    except zlib.error as error:
        raise FormatError(f"gzip: {error}") from error
    if not inflate.eof or inflate.unused_data:
        raise FormatError("gzip: the stream does not end where the batch ends")
    return records


def _to_lz4(data: bytes, lz4: Any) -> bytes:
    # Kafka's Java clients cannot read blocks that refer to earlier blocks.
    frame = lz4.Compressor(level=_LZ4_LEVEL, content_checksum=False, block_linked=False)
    frame.compress(data)
    return bytes(frame.finish())


def _to_xerial(data: bytes, snappy: Any) -> bytes:
    parts = [_XERIAL_HEAD]
    for start in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = bytes(snappy.compress_raw(data[start : start + _XERIAL_BLOCK_BYTES]))
        parts += (_size.pack(len(block)), block)
    return b"".join(parts)


def _from_snappy(data: bytes, snappy: Any) -> bytes:
    """Decompress a stream of snappy-java, or a single raw block, which librdkafka writes."""
    if not data.startswith(_XERIAL_MAGIC):
        return _from_block(data, snappy)
    blocks = []
    here = len(_XERIAL_HEAD)
    if len(data) < here:
        raise FormatError("snappy: the stream ends inside its header")
    while here < len(data):
        if len(data) - here < _size.size:
            raise FormatError("snappy: the stream ends in the middle of the size of a block")
        (size,) = _size.unpack_from(data, here)
        here += _size.size
        if not 0 < size <= len(data) - here:
            raise FormatError(
                f"snappy: a block should have {size} bytes, but {len(data) - here} are left"
            )
        blocks.append(_from_block(data[here : here + size], snappy))
        here += size
    return b"".join(blocks)


def _from_block(block: bytes, snappy: Any) -> bytes:
    # cramjam allocates the size that the block states. If the allocation fails, the process ends.
    size = snappy.decompress_raw_len(block)
    if size > _SNAPPY_MOST * len(block):
        raise FormatError(f"snappy: a block of {len(block)} bytes cannot contain {size} bytes")
    return bytes(snappy.decompress_raw(block))
