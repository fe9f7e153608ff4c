from collections.abc import Callable, Sequence
from typing import Any, Generic, Literal, TypeVar

from kstore_core.tables import Table
from kstore_core.tables.versioned import VersionedTable
from kstore_core.typed.values import Values, VersionedValues
from kstore_core.types import RecordContext, Time

__all__ = ["Points", "VersionPoints", "version_time"]

_K = TypeVar("_K")
_V = TypeVar("_V")
_R = TypeVar("_R")

class Points(Generic[_K, _V]):
    def _bind(
        self, values: Values, table: Table, touch: Callable[[RecordContext], None]
    ) -> None: ...
    def get(self, key: _K) -> _V | None: ...
    def put(
        self, key: _K, value: Any, *, timestamp: Time | None = None, headers: Any = None
    ) -> None: ...

class VersionPoints(Generic[_K, _R]):
    def _bind(
        self,
        values: VersionedValues,
        table: VersionedTable,
        touch: Callable[[RecordContext], None],
    ) -> None: ...
    def put(
        self, key: _K, value: Any, *, timestamp: Time | None = None, headers: Any = None
    ) -> int: ...
    def delete(self, key: _K, *, timestamp: Time | None = None) -> _R | None: ...
    def get(
        self, key: _K, as_of: Time | None = None, *, on_expired: Literal["none", "raise"] = "none"
    ) -> _R | None: ...
    def _put_all(
        self, raw_keys: list[bytes], raws: list[bytes | None], times: Sequence[int]
    ) -> None: ...

def version_time(timestamp: Time | None, record: RecordContext | None) -> int: ...
