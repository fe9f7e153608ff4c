"""Serdes, which convert keys and values to bytes. Built-in serdes are compatible with Kafka's."""

from __future__ import annotations

import json
import struct
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, runtime_checkable

from kstore_core.checks import find_by_name
from kstore_core.codec import Headers
from kstore_core.errors import FormatError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "BUILT_IN",
    "BYTES",
    "FLOAT64",
    "INT32",
    "INT64",
    "JSON",
    "UTF8",
    "BuiltInSerde",
    "Serde",
    "StateSerdes",
    "by_name",
]

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")


@runtime_checkable
class Serde(Protocol[T]):
    """A converter of values of one type to bytes and back.

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
        return (by_name, (self.name,))

    @property
    def arrow_type(self) -> pa.DataType:
        import pyarrow as pa

        return pa.type_for_alias(self._arrow_type)

    def serialize(self, value: T, headers: Headers | None = None) -> bytes:
        return self.encode(value)

    def deserialize(self, data: bytes, headers: Headers | None = None) -> T:
        return self.decode(data)


def _bytes(value: bytes) -> bytes:
    if type(value) is bytes:
        return value
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    raise TypeError(f"serdes.BYTES takes bytes, not {type(value).__name__}")


def _utf8(value: str) -> bytes:
    if not isinstance(value, str):
        raise TypeError(f"serdes.UTF8 takes str, not {type(value).__name__}")
    return value.encode()


def _from_utf8(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise FormatError(f"stored bytes are not UTF-8: {error}", offset=error.start) from error


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def _from_json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"stored bytes are not JSON: {error}") from error


def _number(name: str, form: str) -> tuple[Callable[[Any], bytes], Callable[[bytes], Any]]:
    packer = struct.Struct(form)

    def encode(value: Any) -> bytes:
        try:
            return packer.pack(value)
        except struct.error as error:
            raise ValueError(f"serdes.{name} cannot encode {value!r}: {error}") from error

    def decode(data: bytes) -> Any:
        try:
            return packer.unpack(data)[0]
        except struct.error as error:
            raise FormatError(
                f"serdes.{name} reads {packer.size} bytes, not {len(data)}", offset=0
            ) from error

    return encode, decode


BYTES: BuiltInSerde[bytes] = BuiltInSerde("bytes", "binary", _bytes, _bytes)
"""The serde of bytes, which are not changed."""
UTF8: BuiltInSerde[str] = BuiltInSerde("utf8", "string", _utf8, _from_utf8)
"""The serde of text as UTF-8, as Kafka's StringSerializer writes it."""
JSON: BuiltInSerde[Any] = BuiltInSerde("json", "string", _json, _from_json)
"""The serde of JSON values as compact UTF-8. NaN and infinities raise an error."""
INT32: BuiltInSerde[int] = BuiltInSerde("int32", "int32", *_number("INT32", ">i"))
"""The serde of integers as 4 big-endian bytes, as Kafka's IntegerSerializer writes them.

The bytes of negative numbers sort after the bytes of positive numbers."""
INT64: BuiltInSerde[int] = BuiltInSerde("int64", "int64", *_number("INT64", ">q"))
"""The serde of integers as 8 big-endian bytes, as Kafka's LongSerializer writes them.

The bytes of negative numbers sort after the bytes of positive numbers."""
FLOAT64: BuiltInSerde[float] = BuiltInSerde("float64", "float64", *_number("FLOAT64", ">d"))
"""The serde of IEEE 754 numbers as 8 big-endian bytes, as Kafka's DoubleSerializer writes them."""

BUILT_IN: dict[str, BuiltInSerde[Any]] = {
    serde.name: serde for serde in (BYTES, UTF8, JSON, INT32, INT64, FLOAT64)
}


def by_name(name: str) -> BuiltInSerde[Any]:
    """Return the built-in serde with this name.

    Raises
    ------
    SpecError
        If no built-in serde has this name.
    """
    return find_by_name("built-in serde", name, BUILT_IN)


class StateSerdes(Generic[K, V]):
    """A pair of a key serde and a value serde, with the methods of KIP-1271.

    Parameters
    ----------
    key, value : Serde
        The serde of the keys and the serde of the values.
    """

    def __init__(self, key: Serde[K], value: Serde[V]) -> None:
        self.key = key
        self.value = value

    def raw_key(self, key: K, headers: Headers | None = None) -> bytes | None:
        """Return the bytes of a key. A call without ``headers`` is deprecated."""
        return self.key.serialize(key, _given(headers, "raw_key"))

    def raw_value(self, value: V, headers: Headers | None = None) -> bytes | None:
        """Return the bytes of a value. A call without ``headers`` is deprecated."""
        return self.value.serialize(value, _given(headers, "raw_value"))

    def key_from(self, data: bytes, headers: Headers | None = None) -> K | None:
        """Return the key that ``data`` contains. A call without ``headers`` is deprecated."""
        return self.key.deserialize(data, _given(headers, "key_from"))

    def value_from(self, data: bytes, headers: Headers | None = None) -> V | None:
        """Return the value that ``data`` contains. A call without ``headers`` is deprecated."""
        return self.value.deserialize(data, _given(headers, "value_from"))


def _given(headers: Headers | None, method: str) -> Headers:
    if headers is None:
        warnings.warn(
            f"StateSerdes.{method} without headers is deprecated (KIP-1271); pass the record's "
            "headers",
            DeprecationWarning,
            stacklevel=3,
        )
        return Headers()
    return headers
