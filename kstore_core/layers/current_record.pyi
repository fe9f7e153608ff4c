from collections.abc import Callable
from typing import Self, final

from kstore_core.types import RecordContext

__all__ = ["CurrentRecord", "OpenRecord"]

@final
class CurrentRecord:
    def __new__(cls, where: str = ...) -> Self: ...
    @property
    def current(self) -> RecordContext | None: ...
    def of_a_write(self) -> RecordContext | None: ...

@final
class OpenRecord:
    def __new__(
        cls,
        current_record: CurrentRecord,
        context: RecordContext | None,
        begins: Callable[[], object] | None = ...,
        ends: Callable[[], object] | None = ...,
    ) -> Self: ...
    def __enter__(self) -> RecordContext: ...
    def __exit__(self, kind: object, error: object, trace: object) -> None: ...
    def enter(self) -> None: ...
    def leave(self) -> None: ...
