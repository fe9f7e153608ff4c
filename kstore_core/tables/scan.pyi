from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, Self, TypeVar, final

import pyarrow as pa

from kstore_core.engine.row_slices import RowSlices
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
        table: Callable[[list[bytes], list[Any], bool], pa.Table],
        sliced: Callable[[RowSlices, bool], pa.Table] | None = None,
    ) -> Self: ...
    def __iter__(self) -> Self: ...
    def __next__(self) -> tuple[_K, _R]: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...
    def peek(self) -> tuple[_K, _R]: ...
    def to_arrow(self, *, columns: Iterable[str] | None = None) -> pa.Table: ...
    def to_arrow_batches(
        self, *, max_rows: int = 65_536, columns: Iterable[str] | None = None
    ) -> Iterator[pa.RecordBatch]: ...
    def watch(self, watched: object) -> None: ...
    def close(self) -> None: ...
