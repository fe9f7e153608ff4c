from collections.abc import Callable
from typing import Any, Generic, TypeVar

from kstore_core.tables import Table
from kstore_core.typed.values import Values
from kstore_core.types import RecordContext, Time

__all__ = ["Points"]

_K = TypeVar("_K")
_V = TypeVar("_V")

class Points(Generic[_K, _V]):
    def _bind(
        self, values: Values, table: Table, touch: Callable[[RecordContext], None]
    ) -> None: ...
    def get(self, key: _K) -> _V | None: ...
    def put(
        self, key: _K, value: Any, *, timestamp: Time | None = None, headers: Any = None
    ) -> None: ...
