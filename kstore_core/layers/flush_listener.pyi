from collections.abc import Callable
from typing import Self, TypeAlias

from kstore_core.layers.current_record import CurrentRecord

__all__ = ["FlushListener"]

_Listener: TypeAlias = Callable[[bytes, bytes | None, bytes | None], object]

class FlushListener:
    def __new__(cls, current_record: CurrentRecord) -> Self: ...
    @property
    def listener(self) -> _Listener | None: ...
    def listen(self, listener: _Listener | None) -> None: ...
