from types import TracebackType
from typing import final

__all__ = ["interruptible", "uninterrupted"]

@final
class uninterrupted:  # noqa: N801
    def __enter__(self) -> None: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

@final
class interruptible:  # noqa: N801
    def __enter__(self) -> None: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...
