from collections.abc import Iterable
from typing import Any, Self, final

import pyarrow as pa

from kstore_core.spark.join.version_index import VersionIndex

__all__ = ["VersionLookup"]

@final
class VersionLookup:
    def __new__(cls, indexes: Iterable[VersionIndex], shards: int = 1) -> Self: ...
    def __len__(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    def find(
        self, keys: Any, times: Any, tolerance_ms: int | None = None
    ) -> tuple[pa.Array, pa.Array, pa.Array]: ...
