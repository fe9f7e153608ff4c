from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from kstore_core.stream_clock import StreamClock
from kstore_core.tables import Table
from kstore_core.tables.versioned import VersionedTable
from kstore_core.types import RecordContext

__all__ = ["UNKNOWN_TIME", "LoggedVersions", "NotedPuts", "Notes"]

UNKNOWN_TIME: int

class Notes:
    noted_bytes: int
    _changes: list[tuple[bytes, bytes | None, int, Any]]
    def __init__(self, current_record: Any, has_headers: bool) -> None: ...
    @property
    def current_record(self) -> Any: ...
    def note(self, key: bytes, row: bytes | None, context: RecordContext | None) -> None: ...
    def note_version(
        self, key: bytes, value: bytes | None, timestamp: int, record: RecordContext | None
    ) -> None: ...

class NotedPuts:
    def __init__(self, below: Table, notes: Notes, make_room: Callable[[int], None]) -> None: ...
    def put(self, key: bytes, value: bytes | None) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

class LoggedVersions(VersionedTable):
    def __init__(
        self, rows: Table, segment_interval_ms: int, clock: StreamClock, journal: Notes
    ) -> None: ...
