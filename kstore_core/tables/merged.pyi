from collections.abc import Callable, Iterable, Iterator
from typing import Self, final

from kstore_core.engine import Chunk

__all__ = ["MergedScan"]

@final
class MergedScan:
    def __new__(
        cls,
        upper: Iterable[tuple[list[bytes], list[bytes | None]]] | Iterable[Chunk],
        lower: Iterable[Chunk],
        ranges: tuple[tuple[bytes, bytes | None], ...],
        reverse: bool,
        convert: Callable[[bytes, bytes], bytes] | None = None,
    ) -> Self: ...
    def __iter__(self) -> Iterator[Chunk]: ...
    def __next__(self) -> Chunk: ...
    def close(self) -> None: ...
