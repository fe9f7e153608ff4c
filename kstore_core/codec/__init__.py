"""Compiled functions that encode and decode stored keys and values (docs/formats.md).

The functions take bytes-like objects and return bytes. If a value may be null, the function takes
None and returns None. A function that gets malformed bytes raises a
`kstore_core.errors.FormatError` with the offset of the fault. pyarrow is imported only when a
function that takes Arrow columns is called.
"""

from kstore_core.codec.arrow.decoder import decode_column, split_column
from kstore_core.codec.arrow.encoder import encode_column
from kstore_core.codec.conversions.headers_bytes_store import HeadersBytesStore
from kstore_core.codec.conversions.values import (
    convert_from_plain_to_header_format,
    convert_to_header_format,
    convert_to_timestamped_format,
    has_empty_headers,
    raw_aggregation,
    raw_headers_timestamp_prefix,
    raw_plain_value,
    raw_timestamp,
    raw_timestamped_value,
)
from kstore_core.codec.headers.encoding import decode_headers, encode_headers
from kstore_core.codec.headers.header import Header
from kstore_core.codec.headers.headers import Headers
from kstore_core.codec.keys.composite import (
    key_first_session_key,
    key_first_window_key,
    session_key,
    split_key_first_session_key,
    split_key_first_window_key,
    split_session_key,
    split_time_first_session_key,
    split_time_first_window_key,
    split_versioned_key,
    split_window_key,
    split_windowed_key,
    time_first_session_key,
    time_first_window_key,
    versioned_key,
    window_key,
    windowed_key,
)
from kstore_core.codec.keys.murmur2 import murmur2, partition
from kstore_core.codec.keys.windowed import Windowed
from kstore_core.codec.log.arrow import arrow_to_log, log_to_arrow
from kstore_core.codec.log.batch.decoder import decode_record_batches, decode_record_columns
from kstore_core.codec.log.batch.encoder import (
    encode_compacted_batch,
    encode_record_batch,
    encode_record_columns,
)
from kstore_core.codec.log.batch.finding import find_batch, read_batch_head
from kstore_core.codec.log.batch.head import BatchHead
from kstore_core.codec.log.columns import RecordColumns
from kstore_core.codec.log.order import latest_records, records_in_time, split_by_key
from kstore_core.codec.log.record import LogRecord
from kstore_core.codec.log.rows import (
    log_to_packed_rows,
    log_to_rows,
    refuse_null_keys,
    rows_to_log,
)
from kstore_core.codec.primitives.varints import (
    decode_unsigned_varint,
    decode_varint,
    decode_varlong,
    encode_unsigned_varint,
    encode_varint,
    encode_varlong,
)
from kstore_core.codec.values.records import (
    AggregationWithHeaders,
    ValueAndTimestamp,
    ValueTimestampHeaders,
)
from kstore_core.codec.values.versioned_records import VersionedRecord, VersionedRecordWithHeaders
from kstore_core.codec.values.with_headers import (
    decode_aggregation_with_headers,
    decode_value_timestamp_headers,
    encode_aggregation_with_headers,
    encode_value_timestamp_headers,
)
from kstore_core.codec.values.with_timestamp import (
    decode_latest,
    decode_value_and_timestamp,
    encode_latest,
    encode_value_and_timestamp,
)
from kstore_core.codec.versions import segment_rows
from kstore_core.codec.versions.builder import build_version_rows
from kstore_core.codec.versions.reader import explode_versions

__all__ = [
    "AggregationWithHeaders",
    "BatchHead",
    "Header",
    "Headers",
    "HeadersBytesStore",
    "LogRecord",
    "RecordColumns",
    "ValueAndTimestamp",
    "ValueTimestampHeaders",
    "VersionedRecord",
    "VersionedRecordWithHeaders",
    "Windowed",
    "arrow_to_log",
    "build_version_rows",
    "convert_from_plain_to_header_format",
    "convert_to_header_format",
    "convert_to_timestamped_format",
    "decode_aggregation_with_headers",
    "decode_column",
    "decode_headers",
    "decode_latest",
    "decode_record_batches",
    "decode_record_columns",
    "decode_unsigned_varint",
    "decode_value_and_timestamp",
    "decode_value_timestamp_headers",
    "decode_varint",
    "decode_varlong",
    "encode_aggregation_with_headers",
    "encode_column",
    "encode_compacted_batch",
    "encode_headers",
    "encode_latest",
    "encode_record_batch",
    "encode_record_columns",
    "encode_unsigned_varint",
    "encode_value_and_timestamp",
    "encode_value_timestamp_headers",
    "encode_varint",
    "encode_varlong",
    "explode_versions",
    "find_batch",
    "has_empty_headers",
    "key_first_session_key",
    "key_first_window_key",
    "latest_records",
    "log_to_arrow",
    "log_to_packed_rows",
    "log_to_rows",
    "murmur2",
    "partition",
    "raw_aggregation",
    "raw_headers_timestamp_prefix",
    "raw_plain_value",
    "raw_timestamp",
    "raw_timestamped_value",
    "read_batch_head",
    "records_in_time",
    "refuse_null_keys",
    "rows_to_log",
    "segment_rows",
    "session_key",
    "split_by_key",
    "split_column",
    "split_key_first_session_key",
    "split_key_first_window_key",
    "split_session_key",
    "split_time_first_session_key",
    "split_time_first_window_key",
    "split_versioned_key",
    "split_window_key",
    "split_windowed_key",
    "time_first_session_key",
    "time_first_window_key",
    "versioned_key",
    "window_key",
    "windowed_key",
]
