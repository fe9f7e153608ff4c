from typing import Any

import pyarrow as pa

from kstore_core.codec.log.columns import RecordColumns
from kstore_core.codec.log.rows import _RowLayout

def arrow_to_log(
    keys: Any, values: Any, timestamps: Any, headers: Any = None, *, first_offset: int
) -> RecordColumns: ...
def log_to_arrow(
    columns: RecordColumns, layout: _RowLayout
) -> tuple[pa.Array, pa.Array, pa.Array]: ...
