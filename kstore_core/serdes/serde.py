"""The protocol of serdes, and the class of the serdes that kstore provides."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar, runtime_checkable

from kstore_core.codec import Headers

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["BuiltInSerde", "Serde"]

T = TypeVar("T")


def _named(name: str) -> object:
    """Return the built-in serde with this name. The import is late, because it is circular."""
    return import_module("kstore_core.serdes.names").by_name(name)


@runtime_checkable
class Serde(Protocol[T]):
    """A converter of values of one type to bytes and back.

    A serde may also have the method ``bind(topic, is_key)``, which returns the serde for the keys
    or the values of a topic. A store binds its serdes to the topic of its changelog. The optional
    method ``arrow_value(value)`` converts a value to the form that ``pyarrow.array`` accepts. The
    optional method ``from_arrow(value)`` converts this form back to a value.

    Attributes
    ----------
    name : str
        The name of the serde, which the spec of a store contains.
    arrow_type : pyarrow.DataType
        The type of an Arrow column of the values.
    """

    name: str

    @property
    def arrow_type(self) -> pa.DataType: ...

    def serialize(self, value: T, headers: Headers) -> bytes | None:
        """Return the bytes of ``value``.

        If a serde returns None for a value, the store deletes the key. The method may add headers
        to ``headers``. The store writes these headers with the value.
        """

    def deserialize(self, data: bytes, headers: Headers) -> T | None:
        """Return the value that ``data`` contains.

        ``headers`` are the headers that the store has written with the value.
        """


class BuiltInSerde(Generic[T]):
    """A serde that :mod:`kstore_core.serdes` provides. It ignores headers, and is pickled by name.

    ``serialize`` calls the function ``encode``, and ``deserialize`` calls the function ``decode``.
    """

    def __init__(
        self,
        name: str,
        arrow_type: str,
        encode: Callable[[T], bytes],
        decode: Callable[[bytes], T],
    ) -> None:
        self.name = name
        self.encode = encode
        self.decode = decode
        self._arrow_type = arrow_type

    def __repr__(self) -> str:
        return f"serdes.{self.name.upper()}"

    def __reduce__(self) -> tuple[Callable[[str], object], tuple[str]]:
        return (_named, (self.name,))

    @property
    def arrow_type(self) -> pa.DataType:
        import pyarrow as pa

        if self._arrow_type == "timestamp":
            return pa.timestamp("us", tz="UTC")
        return pa.type_for_alias(self._arrow_type)

    def serialize(self, value: T, headers: Headers | None = None) -> bytes:
        return self.encode(value)

    def deserialize(self, data: bytes, headers: Headers | None = None) -> T:
        return self.decode(data)
