from typing import Any

import pyarrow as pa

from kstore_core.spark.join.lookup import VersionLookup

__all__ = ["overlaps"]

def overlaps(
    lookup: VersionLookup,
    keys: Any,
    begins: Any,
    ends: Any,
    *,
    gaps: bool = False,
    start: int = 0,
    limit: int = 0,
) -> tuple[int, pa.Array, pa.Array, pa.Array, pa.Array, pa.Array]: ...
