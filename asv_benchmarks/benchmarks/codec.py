"""The codec, for single records in Python and for 10,000 records in Arrow columns."""

from __future__ import annotations

import pyarrow as pa

from kstore_core import codec
from kstore_core.codec import segment_rows

VALUE = b"x" * 100
TIMESTAMP = 1_700_000_000_000
RECORDS = 10_000
HEADER_LISTS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def pairs(count: int) -> list[tuple[str, bytes | None]]:
    return [(f"header-{i}", b"value-%d" % i) for i in range(count)]


class Records:
    """One value with its timestamp and headers."""

    params = (0, 3, 10)
    param_names = ("headers",)

    def setup(self, headers: int) -> None:
        self.pairs = pairs(headers)
        self.headers = codec.Headers(self.pairs)
        self.row = codec.encode_value_timestamp_headers(VALUE, TIMESTAMP, self.pairs)
        _, _, self.lazy = codec.decode_value_timestamp_headers(self.row)

    def time_encode(self, headers: int) -> None:
        codec.encode_value_timestamp_headers(VALUE, TIMESTAMP, self.pairs)

    def time_encode_headers(self, headers: int) -> None:
        codec.encode_value_timestamp_headers(VALUE, TIMESTAMP, self.headers)

    def time_encode_headers_untouched(self, headers: int) -> None:
        codec.encode_value_timestamp_headers(VALUE, TIMESTAMP, self.lazy)

    def time_split(self, headers: int) -> None:
        codec.decode_value_timestamp_headers(self.row)

    def time_decode(self, headers: int) -> None:
        _, _, found = codec.decode_value_timestamp_headers(self.row)
        len(found)

    def time_record(self, headers: int) -> None:
        codec.ValueTimestampHeaders(*codec.decode_value_timestamp_headers(self.row))


class Columns:
    """Conversions of 10,000 records to and from Arrow. The unit is one column, not one record."""

    params = (0, 3, 10)
    param_names = ("headers",)

    def setup(self, headers: int) -> None:
        self.values = pa.array([VALUE] * RECORDS, pa.binary())
        self.timestamps = pa.array(range(RECORDS), pa.int64())
        lists = [[{"key": key, "value": value} for key, value in pairs(headers)]] * RECORDS
        self.headers = pa.array(lists, HEADER_LISTS)
        self.rows = codec.encode_column(self.values, self.timestamps, self.headers)

    def time_encode(self, headers: int) -> None:
        codec.encode_column(self.values, self.timestamps, self.headers)

    def time_decode(self, headers: int) -> None:
        codec.decode_column(self.rows)

    def time_split(self, headers: int) -> None:
        codec.split_column(self.rows)


class Versions:
    """Conversions of 10,000 versions, ten for each key, to rows and back."""

    def setup(self) -> None:
        keys = [b"key-%06d" % (i // 10) for i in range(RECORDS)]
        times = [i % 10 * 60_000 for i in range(RECORDS)]
        self.columns = (
            pa.array(keys, pa.binary()),
            pa.array(times, pa.int64()),
            pa.array([VALUE] * RECORDS, pa.binary()),
        )
        self.rows = self.build()
        self.row = segment_rows.new_row(VALUE, 0, 1)
        for time in range(1, 20):
            self.row = segment_rows.insert_as_latest(self.row, time, time + 1, VALUE)

    def build(self) -> tuple[pa.Array, pa.Array]:
        return codec.build_version_rows(
            *self.columns, segment_interval_ms=300_000, first_live_segment=0
        )

    def time_build(self) -> None:
        self.build()

    def time_explode(self) -> None:
        codec.explode_versions(*self.rows)

    def time_find_among_20(self) -> None:
        segment_rows.find(self.row, 5)

    def time_insert_as_latest_of_20(self) -> None:
        segment_rows.insert_as_latest(self.row, 20, 21, VALUE)


class Keys:
    """Composite keys and partitions."""

    def time_window_key(self) -> None:
        codec.window_key(b"0123456789abcdef", TIMESTAMP, 1)

    def time_session_key(self) -> None:
        codec.session_key(b"0123456789abcdef", TIMESTAMP, TIMESTAMP)

    def time_partition(self) -> None:
        codec.partition(b"0123456789abcdef", 12)
