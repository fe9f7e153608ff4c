"""Write stalls. A stalled write waits in Python until RocksDB accepts writes again.

By default a stalled write waits inside RocksDB and holds Python's global lock, so the whole process
stops. On a full disk it stops for ever, because the thread that would recover waits for the write.
So writes use ``no_slowdown``, which makes RocksDB refuse a stalled write, and this module waits.
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
    """Return True if RocksDB refused a write because of a stall, and wrote nothing."""
    return "Write stall" in str(error)


class Stalls:
    """The stalls of one database.

    Parameters
    ----------
    room_bytes : int
        If a flush fails and less space than this is left, the error says that the disk is full.
    """

    def __init__(self, root: Rdict, path: Path, room_bytes: int) -> None:
        self._root = root
        self._path = path
        self._room_bytes = room_bytes

    def wait(self, attempt: int) -> None:
        """Wait until writes are no longer stopped. Each ``attempt``, from 0 on, waits longer.

        Raises
        ------
        StorageFullError, EngineError
            Writes are stopped because flushing fails.
        """
        time.sleep(min(_SHORTEST_S * 2**attempt, _LONGEST_S))
        while self._property("is-write-stopped"):
            if self._property("background-errors"):
                self._give_up()
            time.sleep(_SHORTEST_S)

    def _property(self, name: str) -> int:
        return self._root.property_int_value(f"rocksdb.{name}") or 0

    def _give_up(self) -> None:
        what = f"rocksdb database {self._path}: cannot write a batch: its buffers are full and "
        if shutil.disk_usage(self._path).free < self._room_bytes:
            raise StorageFullError(
                f"{what}there is no space left on the disk to flush them. What was committed "
                "before is intact: make room and commit again"
            )
        raise EngineError(
            f"{what}flushing them fails; {self._path / 'LOG'} says why. Close the store and "
            "open it again"
        )
