"""A layer: values are compressed on their way down, and come back as they were."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator

from kstore_core.engine import Chunk
from kstore_core.tables import Bounds, Layer, Table, Write


class Squeezed(Layer):
    """A table of compressed values."""

    def __init__(self, below: Table) -> None:
        super().__init__(below)
        self._get = below.get

    def get(self, key: bytes) -> bytes | None:
        found = self._get(key)
        return None if found is None else zlib.decompress(found)

    def write(self, writes: Iterable[Write]) -> None:
        self.below.write(
            Write(key, None if value is None else zlib.compress(value), context)
            for key, value, context in writes
        )

    def scan(self, bounds: Bounds) -> Iterator[Chunk]:
        chunks = self.below.scan(bounds)  # now, for a scan is as of its call
        return ((keys, list(map(zlib.decompress, values))) for keys, values in chunks)
