from typing import final

@final
class Strip:
    headers: int
    headed: int
    timestamps: int

    def __new__(
        cls,
        *,
        headers: bool,
        timestamp: bool = False,
        least_bytes: int = 0,
        versioned: bool = False,
        index_at: int = -1,
    ) -> Strip: ...
    def rows(self, keys: list[bytes], values: list[bytes]) -> list[bytes]: ...
