from collections.abc import Iterator
from typing import Self, final

from kstore_core.engine import Chunk
from kstore_core.tables.segments.segment import Segment
from kstore_core.tables.staging import StagedNamespace

__all__ = ["OpenScans", "SegmentScan"]

@final
class OpenScans:
    def __new__(cls, rows: StagedNamespace) -> Self: ...

@final
class SegmentScan:
    def __new__(
        cls,
        others: OpenScans,
        segments: list[Segment],
        lo: bytes | None,
        hi: bytes | None,
        reverse: bool,
        joined: bool = False,
    ) -> Self: ...
    def __iter__(self) -> Iterator[Chunk]: ...
    def __next__(self) -> Chunk: ...
    def close(self) -> None: ...
