from collections.abc import Sequence

__all__ = ["PackedBytes"]

class PackedBytes(Sequence[bytes]):
    def __len__(self) -> int: ...
    def __getitem__(self, index: int | slice, /) -> bytes: ...  # type: ignore[override]
