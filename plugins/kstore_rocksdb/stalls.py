"""Wait while RocksDB stalls writes.

RocksDB stalls a write if flushes or compactions are behind. By default the write then waits inside
RocksDB and holds the GIL, so that the whole process stops. If the disk is full, the process stops
for ever, because RocksDB's recovery thread waits for the write. Therefore kstore sets
``no_slowdown`` for its writes. RocksDB then refuses a write instead, and kstore waits without the
GIL and retries.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from rocksdict import Rdict

from kstore_core.errors import EngineError, StorageFullError

__all__ = ["Stalls", "is_stall"]

_SHORTEST_S = 0.001
_LONGEST_S = 0.25


def is_stall(error: Exception) -> bool:
    """Return True if RocksDB has refused a write because of a stall. Nothing was written then."""
    return "Write stall" in str(error)


class Stalls:
    """A helper that waits until a stall of one database ends.

    Parameters
    ----------
    root : Rdict
        The handle of the database.
    path : Path
        The directory of the database.
    room_bytes : int
        The least free disk space in bytes. If a flush fails and less space is free,
        :meth:`wait` raises StorageFullError.
    """

    def __init__(self, root: Rdict, path: Path, room_bytes: int) -> None:
        self._root = root
        self._path = path
        self._room_bytes = room_bytes

    def wait(self, attempt: int) -> None:
        """Wait until RocksDB accepts writes again.

        Parameters
        ----------
        attempt : int
            The number of earlier calls for the same write. The wait is longer for a higher number.

        Raises
        ------
        StorageFullError
            RocksDB cannot flush, and the disk is full.
        EngineError
            RocksDB cannot flush for another reason.
        """
        time.sleep(min(_SHORTEST_S * 2**attempt, _LONGEST_S))
        while self._property("is-write-stopped"):
            if self._property("background-errors"):
                self._give_up()
            time.sleep(_SHORTEST_S)

    def _property(self, name: str) -> int:
        return self._root.property_int_value(f"rocksdb.{name}") or 0

    def _give_up(self) -> None:
        what = f"rocksdb database {self._path}: cannot write a batch: "
        if shutil.disk_usage(self._path).free < self._room_bytes:
            raise StorageFullError(
                f"{what}the memory buffers are full, and the disk has no space left to flush "
                "them to. All earlier commits are intact, so make room and commit again"
            )
        raise EngineError(
            f"{what}the memory buffers are full, and RocksDB cannot flush them; the file "
            f"{self._path / 'LOG'} contains the reason. Close the store and open it again"
        )
