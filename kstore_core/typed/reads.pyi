from collections.abc import Callable
from typing import Any

from kstore_core.keys import RowKeys
from kstore_core.stream_clock import StreamClock
from kstore_core.tables import Table
from kstore_core.tables.scan import Scan

__all__ = ["Reads"]

class Reads:
    def __init__(
        self, table: Table, clock: StreamClock, keys: RowKeys, interval_ms: int
    ) -> None: ...
    def fetch(
        self,
        item: Callable[[bytes, Any], tuple[Any, Any]],
        columns: Callable[[list[bytes], list[Any]], Any],
        key_from: bytes | None,
        key_to: bytes | None,
        earliest: int,
        latest: int,
        latest_start: int = ...,
        *,
        reverse: bool = False,
    ) -> Scan[Any, Any]: ...
