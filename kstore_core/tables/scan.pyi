from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, final

import pyarrow as pa

from kstore_core.tables.staging import StagedNamespace

__all__ = ["Scan"]

_K = TypeVar("_K")
_R = TypeVar("_R")

@final
class Scan(Generic[_K, _R]):
    def __new__(
        cls,
        rows: StagedNamespace,
        chunks: Iterator[tuple[list[bytes], list[Any]]] | None,
        item: Callable[[bytes, Any], tuple[_K, _R]],
        table: Callable[[list[bytes], list[Any]], pa.Table],
    ) -> Self: ...
    def __iter__(self) -> Self: ...
    def __next__(self) -> tuple[_K, _R]: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...
    def peek(self) -> tuple[_K, _R]: ...
    def to_arrow(self) -> pa.Table: ...
    def watch(self, watched: object) -> None: ...
    def close(self) -> None: ...
