"""Between a user's values and stored bytes, one class a format: the only code that knows both."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kstore_core.codec import (
    Headers,
    decode_value_and_timestamp,
    decode_value_timestamp_headers,
    encode_value_and_timestamp,
    encode_value_timestamp_headers,
)
from kstore_core.formats import PLAIN, TIMESTAMPED, TIMESTAMPED_HEADERS
from kstore_core.serdes import BuiltInSerde
from kstore_core.spec import StoreSpec
from kstore_core.typed.store import RecordSlot, checked_key, key_encoder
from kstore_core.types import Time, ValueAndTimestamp, ValueTimestampHeaders, to_millis

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Values", "values_of"]

RawRow = tuple[bytes, bytes | None]


class Values(ABC):
    """How one key-value format is written and read.

    Parameters
    ----------
    spec : StoreSpec
    slot : RecordSlot
        Where the input record's time and headers are found when a write does not give them.
    """

    def __init__(self, spec: StoreSpec, slot: RecordSlot) -> None:
        self._key = spec.key
        self._value = spec.value
        self._slot = slot
        self._raw_key = key_encoder(spec.key, slot)
        # The built-in serdes are blind to headers, so theirs need not be made.
        self._blind = isinstance(spec.key, BuiltInSerde) and isinstance(spec.value, BuiltInSerde)
        self._encode: Callable[[Any], bytes] | None = None
        self._decode: Callable[[bytes], Any] | None = None
        self._decode_key: Callable[[bytes], Any] | None = None
        if isinstance(spec.value, BuiltInSerde):
            self._encode, self._decode = spec.value.encode, spec.value.decode
        if isinstance(spec.key, BuiltInSerde):
            self._decode_key = spec.key.decode

    @abstractmethod
    def write(self, key: Any, value: Any, timestamp: Time | None, headers: Any) -> RawRow:
        """The row of a put; a value of None deletes."""

    @abstractmethod
    def read(self, raw: bytes) -> Any:
        """The value of a stored row; None where the serde makes nothing of it."""

    @abstractmethod
    def item(self, raw_key: bytes, raw: bytes) -> tuple[Any, Any]:
        """The key and value of a stored row."""

    @abstractmethod
    def table(self, keys: list[bytes], raws: list[bytes]) -> pa.Table:
        """Stored rows as columns."""

    def _deserialize(self, data: bytes, headers: Any) -> Any:
        if self._decode is not None:
            return self._decode(data)
        return self._value.deserialize(data, headers)

    def _key_from(self, data: bytes, headers: Any) -> Any:
        if self._decode_key is not None:
            return self._decode_key(data)
        return self._key.deserialize(data, headers)

    def _serialize(self, key: Any, value: Any, headers: Headers) -> RawRow:
        """Key first, then value, both with the same headers, to which either may add."""
        raw_key = checked_key(self._key, key, headers)
        return raw_key, None if value is None else self._value.serialize(value, headers)

    def _context_headers(self) -> Headers:
        context = self._slot.current
        return Headers() if context is None else context.headers.copy()

    def _time(self, timestamp: Time | None) -> int:
        if timestamp is None:
            context = self._slot.current
            timestamp = None if context is None else context.timestamp
            if timestamp is None:
                raise TypeError(
                    "a timestamp is missing: pass timestamp=…, a value that carries one, or write "
                    "within state.record(…)"
                )
        return timestamp if type(timestamp) is int else to_millis(timestamp)

    def _columns(self, keys: list[bytes], values: pa.Array) -> dict[str, pa.Array]:
        import pyarrow as pa

        from kstore_core import arrow

        return {
            "key": arrow.to_typed(self._key, pa.array(keys, pa.binary())),
            "value": arrow.to_typed(self._value, values),
        }


class PlainValues(Values):
    """Bare values."""

    def write(self, key: Any, value: Any, timestamp: Time | None, headers: Any) -> RawRow:
        if timestamp is not None or headers is not None:
            raise TypeError(
                "a plain store keeps neither timestamps nor headers; see "
                "stores.timestamped_key_value_with_headers"
            )
        if self._blind:
            return self._raw_key(key), None if value is None else self._encode(value)  # type: ignore[misc]
        return self._serialize(key, value, self._context_headers())

    def read(self, raw: bytes) -> Any:
        return self._deserialize(raw, Headers())

    def item(self, raw_key: bytes, raw: bytes) -> tuple[Any, Any]:
        headers = Headers()
        return self._key_from(raw_key, headers), self._deserialize(raw, headers)

    def table(self, keys: list[bytes], raws: list[bytes]) -> pa.Table:
        import pyarrow as pa

        return pa.table(self._columns(keys, pa.array(raws, pa.binary())))


class TimestampedValues(Values):
    """Values with their time: :class:`ValueAndTimestamp`."""

    def write(self, key: Any, value: Any, timestamp: Time | None, headers: Any) -> RawRow:
        if headers is not None:
            raise TypeError(
                "a timestamped store keeps no headers; see "
                "stores.timestamped_key_value_with_headers"
            )
        if type(value) is ValueAndTimestamp:
            timestamp = _only(value.timestamp, timestamp)
            value = value.value
        if value is None:
            return self._raw_key(key), None
        millis = self._time(timestamp)
        if self._blind:
            raw_key, data = self._raw_key(key), self._encode(value)  # type: ignore[misc]
        else:
            raw_key, data = self._serialize(key, value, self._context_headers())
        return raw_key, encode_value_and_timestamp(data, millis)

    def read(self, raw: bytes) -> Any:
        data, timestamp = decode_value_and_timestamp(raw)
        return ValueAndTimestamp.make(self._deserialize(data, Headers()), timestamp)

    def item(self, raw_key: bytes, raw: bytes) -> tuple[Any, Any]:
        return self._key_from(raw_key, Headers()), self.read(raw)

    def table(self, keys: list[bytes], raws: list[bytes]) -> pa.Table:
        import pyarrow as pa

        from kstore_core.codec import decode_column

        values, timestamps, _ = decode_column(
            pa.array(raws, pa.binary()), layout="value_and_timestamp"
        )
        return pa.table({**self._columns(keys, values), "timestamp": timestamps})


class HeadersValues(Values):
    """Values with their time and headers: :class:`ValueTimestampHeaders`."""

    def write(self, key: Any, value: Any, timestamp: Time | None, headers: Any) -> RawRow:
        if type(value) is ValueTimestampHeaders:
            timestamp = _only(value.timestamp, timestamp)
            headers = _only(value.headers, headers)
            value = value.value
        elif headers is None:
            context = self._slot.current
            if context is not None:
                headers = context.headers
        if value is None:
            # A tombstone's headers go to the changelog only: here it has a key and nothing else.
            return self._raw_key(key), None
        millis = self._time(timestamp)
        if self._blind:
            return self._raw_key(key), encode_value_timestamp_headers(
                self._encode(value),  # type: ignore[misc]
                millis,
                headers,
            )
        headers = Headers(headers or ())
        raw_key, data = self._serialize(key, value, headers)
        return raw_key, encode_value_timestamp_headers(data, millis, headers)

    def read(self, raw: bytes) -> Any:
        data, timestamp, headers = decode_value_timestamp_headers(raw)
        if self._decode is not None:
            return ValueTimestampHeaders(self._decode(data), timestamp, headers)
        return ValueTimestampHeaders.make(
            self._value.deserialize(data, headers), timestamp, headers
        )

    def item(self, raw_key: bytes, raw: bytes) -> tuple[Any, Any]:
        record = self.read(raw)
        headers = Headers() if record is None else record.headers
        return self._key_from(raw_key, headers), record

    def table(self, keys: list[bytes], raws: list[bytes]) -> pa.Table:
        import pyarrow as pa

        from kstore_core.codec import decode_column

        values, timestamps, headers = decode_column(pa.array(raws, pa.binary()))
        return pa.table(
            {**self._columns(keys, values), "timestamp": timestamps, "headers": headers}
        )


def _only(carried: Any, given: Any) -> Any:
    if given is not None:
        raise TypeError("the value carries its timestamp and headers; do not pass them beside it")
    return carried


_BY_FORMAT: dict[str, type[Values]] = {
    PLAIN.name: PlainValues,
    TIMESTAMPED.name: TimestampedValues,
    TIMESTAMPED_HEADERS.name: HeadersValues,
}


def values_of(spec: StoreSpec, slot: RecordSlot) -> Values:
    """The class for ``spec``'s format."""
    return _BY_FORMAT[spec.format.name](spec, slot)
