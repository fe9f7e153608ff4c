from typing import Any

import pyarrow as pa

from kstore_core.codec.log_rows import _RowLayout
from kstore_core.codec.record_columns import RecordColumns

def arrow_to_log(
    keys: Any, values: Any, timestamps: Any, headers: Any = None, *, first_offset: int
) -> RecordColumns: ...
def log_to_arrow(
    columns: RecordColumns, layout: _RowLayout
) -> tuple[pa.Array, pa.Array, pa.Array]: ...
