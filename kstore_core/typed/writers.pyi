from collections.abc import Callable
from typing import Any

from kstore_core.clock import StreamClock
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
        make: Callable[..., bytes],
    ) -> None: ...

class WindowWriter(Writer):
    def __init__(
        self,
        values: Values,
        table: Table,
        clock: StreamClock,
        interval_ms: int,
        touch: Callable[[RecordContext], None],
        make: Callable[..., bytes],
        numbers: DuplicateNumbers | None,
    ) -> None: ...
    def put(
        self, key: Any, value: Any, start: Time, timestamp: Time | None, headers: Any
    ) -> None: ...

class SessionWriter(Writer):
    def put(self, session: Any, aggregate: Any, headers: Any) -> None: ...

def window_start(start: Time) -> int: ...
