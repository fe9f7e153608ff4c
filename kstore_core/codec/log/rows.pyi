from collections.abc import Sequence
from typing import Literal, TypeAlias

from typing_extensions import Buffer

from kstore_core.codec.headers.headers import _HeadersLike
from kstore_core.codec.log.columns import RecordColumns
from kstore_core.engine.packed import PackedBytes

_RowLayout: TypeAlias = Literal[
    "plain", "value_and_timestamp", "value_timestamp_headers", "aggregation_with_headers"
]

def rows_to_log(
    keys: Sequence[Buffer],
    rows: Sequence[Buffer | None],
    layout: _RowLayout,
    *,
    first_offset: int,
    timestamps: Sequence[int] | None = None,
    headers: Sequence[_HeadersLike] | None = None,
) -> RecordColumns: ...
def log_to_rows(
    columns: RecordColumns, layout: _RowLayout
) -> tuple[list[bytes], list[bytes | None]]: ...
def refuse_null_keys(columns: RecordColumns) -> None: ...
def log_to_packed_rows(
    columns: RecordColumns, layout: _RowLayout, start: int, stop: int
) -> tuple[PackedBytes, PackedBytes, list[bytes]]: ...
