"""Functions that convert a column of headers to Headers objects and back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import pyarrow as pa

from kstore_core import arrow
from kstore_core.codec import (
    Headers,
    decode_aggregation_with_headers,
    decode_column,
    encode_aggregation_with_headers,
)
from kstore_core.codec.arrow.encoder import encode_header_lists

__all__ = ["headers_column", "headers_list"]

_LAYOUT: Final = "aggregation_with_headers"


def headers_list(column: pa.Array) -> list[Headers]:
    """Convert a column of headers to Headers objects. A null gives empty Headers.

    A Headers object decodes its bytes when it is first used.
    """
    raw = encode_header_lists(column.cast(arrow.headers_type()), len(column))
    return [decode_aggregation_with_headers(row)[1] for row in raw.to_pylist()]


def headers_column(headers: Iterable[Headers]) -> pa.Array:
    """Convert Headers objects to a column of headers."""
    raw = [encode_aggregation_with_headers(b"", each) for each in headers]
    return decode_column(pa.array(raw, pa.binary()), layout=_LAYOUT)[2]
