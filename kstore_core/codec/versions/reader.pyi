from typing import Any

import pyarrow as pa

def explode_versions(
    row_keys: Any, row_values: Any, *, tombstones: bool = False
) -> tuple[pa.Array, pa.Array, pa.Array, pa.Array]: ...
