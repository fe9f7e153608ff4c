from typing import Any

import pyarrow as pa

def build_version_rows(
    keys: Any,
    timestamps: Any,
    values: Any,
    *,
    segment_interval_ms: int,
    first_live_segment: int,
) -> tuple[pa.Array, pa.Array]: ...
