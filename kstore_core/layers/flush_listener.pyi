from collections.abc import Callable
from typing import Self, TypeAlias

from kstore_core.layers.current_record import RecordSlot

__all__ = ["Telling"]

_Listener: TypeAlias = Callable[[bytes, bytes | None, bytes | None], object]

class Telling:
    def __new__(cls, slot: RecordSlot) -> Self: ...
    @property
    def listener(self) -> _Listener | None: ...
    def listen(self, listener: _Listener | None) -> None: ...
