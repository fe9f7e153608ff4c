from typing import Any

import pyarrow as pa

__all__ = ["take_headers"]

def take_headers(headers: Any, rows: Any) -> pa.Array: ...
