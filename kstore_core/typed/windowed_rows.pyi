from typing import Any, Generic, Self, TypeVar

import pyarrow as pa

from kstore_core.keys import RowKeys
from kstore_core.tables.scan import Scan
from kstore_core.typed.reads import Reads
from kstore_core.typed.values import Values
from kstore_core.typed.writers import SessionWriter, WindowWriter
from kstore_core.types import Time, Windowed

__all__ = ["SessionPoints", "SessionRows", "WindowPoints", "WindowRows"]

_K = TypeVar("_K")
_R = TypeVar("_R")

class WindowRows:
    def __new__(cls, values: Values, keys: RowKeys, size_ms: int) -> Self: ...
    @property
    def values(self) -> Values: ...
    def item(self, row: bytes, raw: Any) -> tuple[Windowed[Any], Any]: ...
    def timed(self, row: bytes, raw: Any) -> tuple[int, Any]: ...
    def table(self, rows: list[bytes], raws: list[Any], headers: bool = True) -> pa.Table: ...
    def timed_table(self, rows: list[bytes], raws: list[Any], headers: bool = True) -> pa.Table: ...

class SessionRows:
    def __new__(cls, values: Values, keys: RowKeys) -> Self: ...
    @property
    def values(self) -> Values: ...
    def item(self, row: bytes, raw: Any) -> tuple[Windowed[Any], Any]: ...
    def table(self, rows: list[bytes], raws: list[Any], headers: bool = True) -> pa.Table: ...

class WindowPoints(Generic[_K, _R]):
    def _bind(
        self, rows: WindowRows, reads: Reads, writer: WindowWriter, retains_duplicates: bool
    ) -> None: ...
    def put(
        self,
        key: _K,
        value: Any,
        *,
        window_start: Time,
        timestamp: Time | None = None,
        headers: Any = None,
    ) -> None: ...
    def fetch_one(self, key: _K, window_start: Time) -> _R | None: ...
    def fetch(
        self,
        key: _K,
        from_ts: Time | None = None,
        to_ts: Time | None = None,
        *,
        reverse: bool = False,
    ) -> Scan[int, _R]: ...

class SessionPoints(Generic[_K, _R]):
    def _bind(self, rows: SessionRows, reads: Reads, writer: SessionWriter) -> None: ...
    def put(self, session: Windowed[_K], aggregate: Any, *, headers: Any = None) -> None: ...
    def fetch_session(self, key: _K, start: Time, end: Time) -> _R | None: ...
    def find_sessions(
        self,
        key: _K,
        earliest_end: Time | None,
        latest_start: Time | None,
        *,
        reverse: bool = False,
    ) -> Scan[Windowed[_K], _R]: ...
    def fetch(self, key: _K, *, reverse: bool = False) -> Scan[Windowed[_K], _R]: ...
