from typing import Any, ClassVar, final

from typing_extensions import Buffer

from kstore_core.codec.headers.headers import Headers, _HeadersLike

@final
class LogRecord:
    __match_args__ = ("offset", "timestamp", "key", "value", "headers")
    __hash__: ClassVar[None]  # type: ignore[assignment]
    def __init__(
        self,
        offset: int,
        timestamp: int,
        key: Buffer | None,
        value: Buffer | None,
        headers: _HeadersLike = None,
    ) -> None: ...
    @property
    def offset(self) -> int: ...
    @property
    def timestamp(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> Headers: ...
    def _repr_html_(self) -> str: ...
    def __reduce__(self) -> tuple[Any, ...]: ...
