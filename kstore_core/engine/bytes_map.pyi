from typing import Any, final

__all__ = ["BytesMap"]

@final
class BytesMap:
    def __len__(self) -> int: ...
    def get(self, key: bytes) -> Any: ...
