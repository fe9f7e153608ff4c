"""The workload that encodes and decodes a value with its timestamp and three headers."""

from __future__ import annotations

from kstore_core import Headers, codec

from .data import HEADERS, POOL, VALUES, Run

__all__ = ["run"]

_BENCH = "codec"


def run(run: Run) -> None:
    """Measure all operations. The headers of a decoded value are decoded, too."""
    headers = [Headers(pairs) for pairs in HEADERS]
    encode, decode = codec.encode_value_timestamp_headers, codec.decode_value_timestamp_headers
    mask, count = POOL - 1, 2 * run.count
    with run.timed(_BENCH, "value_timestamp_headers_serialize", count):
        for i in range(count):
            encode(VALUES[i & mask], i, headers[i & mask])
    values = [encode(VALUES[i], i, headers[i]) for i in range(POOL)]
    with run.timed(_BENCH, "value_timestamp_headers_deserialize", count):
        for i in range(count):
            len(decode(values[i & mask])[2])
    encoded = [codec.encode_headers(each) for each in headers]
    with run.timed(_BENCH, "headers_deserialize", count):
        for i in range(count):
            list(codec.decode_headers(encoded[i & mask]))
