from typing import Any, Literal, TypeAlias

import pyarrow as pa

_Layout: TypeAlias = Literal[
    "value_timestamp_headers", "value_and_timestamp", "aggregation_with_headers"
]

def encode_column(
    values: Any, timestamps: Any = None, headers: Any = None, *, layout: _Layout = ...
) -> pa.Array: ...
def encode_header_lists(headers: Any, count: int) -> pa.Array: ...
