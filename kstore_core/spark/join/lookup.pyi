from collections.abc import Sequence
from typing import Any, Self, final

import pyarrow as pa

__all__ = ["VersionIndex"]

@final
class VersionIndex:
    def __new__(cls, keys: Any, begins: Any, ends: Any, horizons: Sequence[int]) -> Self: ...
    def __len__(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    def find(
        self, keys: Any, times: Any, tolerance_ms: int | None = None
    ) -> tuple[pa.Array, pa.Array, pa.Array]: ...
