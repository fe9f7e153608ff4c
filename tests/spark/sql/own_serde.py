"""A serde that is not built in, in a module that workers can import."""

from __future__ import annotations

from kstore_core import serdes

__all__ = ["Reversed"]


class Reversed:
    """Bytes, which are stored in reverse."""

    name = "reversed"
    arrow_type = serdes.BYTES.arrow_type

    def serialize(self, value: bytes | None, headers: object = ()) -> bytes | None:
        return value if value is None else value[::-1]

    def deserialize(self, data: bytes, headers: object = ()) -> bytes:
        return data[::-1]
