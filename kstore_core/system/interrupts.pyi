from typing import Protocol, TypeVar, final

__all__ = ["enter", "interruptible", "uninterrupted"]

class _Handle(Protocol):
    def _check(self) -> None: ...

_H = TypeVar("_H", bound=_Handle)

def enter(self: _H) -> _H: ...

@final
class uninterrupted:  # noqa: N801
    def __enter__(self) -> None: ...
    def __exit__(self, kind: object, error: object, trace: object) -> None: ...

@final
class interruptible:  # noqa: N801
    def __enter__(self) -> None: ...
    def __exit__(self, kind: object, error: object, trace: object) -> None: ...
