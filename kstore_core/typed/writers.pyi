from collections.abc import Callable

from kstore_core.keys import RowKeys
from kstore_core.stream_clock import StreamClock
from kstore_core.tables import Table
from kstore_core.typed.duplicates import DuplicateNumbers
from kstore_core.typed.values import Values
from kstore_core.types import RecordContext, Time

__all__ = ["SessionWriter", "WindowWriter", "window_start"]

class Writer:
    def __init__(
        self,
        values: Values,
        table: Table,
        clock: StreamClock,
        interval_ms: int,
        touch: Callable[[RecordContext], None],
        keys: RowKeys,
    ) -> None: ...

class WindowWriter(Writer):
    def __init__(
        self,
        values: Values,
        table: Table,
        clock: StreamClock,
        interval_ms: int,
        touch: Callable[[RecordContext], None],
        keys: RowKeys,
        numbers: DuplicateNumbers | None,
    ) -> None: ...
    def set_many(
        self, raw_keys: list[bytes], raws: list[bytes | None], starts: list[int]
    ) -> None: ...

class SessionWriter(Writer):
    def set_many(
        self,
        raw_keys: list[bytes],
        raws: list[bytes | None],
        starts: list[int],
        ends: list[int],
    ) -> None: ...

def window_start(start: Time) -> int: ...
