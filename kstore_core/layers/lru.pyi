from typing import Self

__all__ = ["CacheBudget"]

class CacheBudget:
    def __new__(cls, max_bytes: int) -> Self: ...
    @property
    def max_bytes(self) -> int: ...
    @property
    def used_bytes(self) -> int: ...
