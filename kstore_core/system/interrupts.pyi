from types import TracebackType
from typing import Protocol, TypeVar, final

__all__ = ["enter", "interruptible", "leave", "uninterrupted"]

class _Handle(Protocol):
    def _check(self) -> None: ...

_H = TypeVar("_H", bound=_Handle)

class _Left(Protocol):
    def _leave(self, normally: bool) -> None: ...

def enter(self: _H) -> _H: ...
def leave(
    self: _Left,
    kind: type[BaseException] | None,
    error: BaseException | None,
    trace: TracebackType | None,
) -> None: ...

@final
class uninterrupted:  # noqa: N801
    def __enter__(self) -> None: ...
    def __exit__(self, kind: object, error: object, trace: object) -> None: ...

@final
class interruptible:  # noqa: N801
    def __enter__(self) -> None: ...
    def __exit__(self, kind: object, error: object, trace: object) -> None: ...
