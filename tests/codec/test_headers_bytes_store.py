"""KIP-1271's helper under its own name."""

from typing import Any

import pytest

from kstore_core import codec


class PlainRows(codec.HeadersBytesStore):
    """As a store class of Kafka Streams says it."""


@pytest.mark.parametrize("store", [codec.HeadersBytesStore, PlainRows, PlainRows()])
def test_the_name_in_the_kip_converts_as_the_function_does(store: Any) -> None:
    row = codec.encode_value_and_timestamp(b"v", 7)
    converted = store.convert_to_header_format(row)
    assert converted == b"\0" + row == codec.convert_to_header_format(row)
    assert tuple(codec.decode_value_timestamp_headers(converted)) == (b"v", 7, codec.Headers())
    assert store.convert_to_header_format(memoryview(row)) == converted
    assert store.convert_to_header_format(None) is None
