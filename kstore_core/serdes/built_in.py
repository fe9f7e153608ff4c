"""The serdes without parameters. If Kafka has the same serde, the bytes are equal to Kafka's."""

from __future__ import annotations

import datetime
import json
import struct
from collections.abc import Callable
from typing import Any

from kstore_core.errors import FormatError
from kstore_core.serdes.checking import EPOCH, checked, micros_of
from kstore_core.serdes.serde import BuiltInSerde
from kstore_core.serdes.types import Type

__all__ = [
    "BOOLEAN",
    "BUILT_IN",
    "BYTES",
    "DATE",
    "FLOAT64",
    "INT32",
    "INT64",
    "JSON",
    "TIMESTAMP",
    "UTF8",
]


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


def _boolean(value: bool) -> bytes:
    if value is True or value is False:
        return b"\x01" if value else b"\0"
    raise TypeError(f"serdes.BOOLEAN takes bool, not {type(value).__name__}")


def _from_boolean(data: bytes) -> bool:
    if data in (b"\0", b"\x01"):
        return data == b"\x01"
    raise FormatError(
        f"serdes.BOOLEAN reads one byte, 00 or 01, but was given {bytes(data[:8]).hex(' ')!r}",
        offset=0,
    )


def _date(value: datetime.date) -> bytes:
    day = checked(Type("date"), value, "serdes.DATE")
    if day is None:
        raise TypeError("serdes.DATE takes datetime.date, not NoneType")
    return _DAYS.pack(day.toordinal() - _EPOCH_DAY)


def _from_date(data: bytes) -> datetime.date:
    if len(data) != _DAYS.size:
        raise FormatError(f"serdes.DATE reads 4 bytes, but was given {len(data)} bytes", offset=0)
    (days,) = _DAYS.unpack(data)
    try:
        return datetime.date.fromordinal(_EPOCH_DAY + days)
    except (ValueError, OverflowError):
        raise FormatError(
            f"the stored date is {days} days after 1970-01-01, which is not in the years 1 to 9999 "
            "of datetime.date",
            offset=0,
        ) from None


def _timestamp(value: datetime.datetime) -> bytes:
    time = checked(Type("timestamp"), value, "serdes.TIMESTAMP")
    if time is None:
        raise TypeError("serdes.TIMESTAMP takes an aware datetime.datetime, not NoneType")
    return _MICROS.pack(micros_of(time))


def _from_timestamp(data: bytes) -> datetime.datetime:
    if len(data) != _MICROS.size:
        raise FormatError(
            f"serdes.TIMESTAMP reads 8 bytes, but was given {len(data)} bytes", offset=0
        )
    (micros,) = _MICROS.unpack(data)
    try:
        return EPOCH + datetime.timedelta(microseconds=micros)
    except OverflowError:
        raise FormatError(
            f"the stored timestamp is {micros} µs after 1970-01-01, which is not in the years 1 to "
            "9999 of datetime.datetime",
            offset=0,
        ) from None


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
                f"serdes.{name} reads {packer.size} bytes, but was given {len(data)} bytes",
                offset=0,
            ) from error

    return encode, decode


_DAYS, _MICROS = struct.Struct(">i"), struct.Struct(">q")
_EPOCH_DAY = datetime.date(1970, 1, 1).toordinal()

BYTES: BuiltInSerde[bytes] = BuiltInSerde("bytes", "binary", _bytes, _bytes)
"""The serde of bytes, which it does not change."""
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
BOOLEAN: BuiltInSerde[bool] = BuiltInSerde("boolean", "bool", _boolean, _from_boolean)
"""The serde of booleans as one byte, 00 or 01, as Kafka's BooleanSerializer writes them."""
DATE: BuiltInSerde[datetime.date] = BuiltInSerde("date", "date32", _date, _from_date)
"""The serde of dates as the number of days since 1970-01-01 in 4 big-endian bytes.

Kafka has no serde of dates. Kafka's IntegerSerializer writes the same bytes for this number."""
TIMESTAMP: BuiltInSerde[datetime.datetime] = BuiltInSerde(
    "timestamp", "timestamp", _timestamp, _from_timestamp
)
"""The serde of points in time as microseconds since the epoch in 8 big-endian bytes.

Values are aware datetimes. A value that is read is in UTC. Spark's timestamps have the same unit.
Kafka has no serde of timestamps. Kafka's LongSerializer writes the same bytes for this number."""

BUILT_IN: dict[str, BuiltInSerde[Any]] = {
    serde.name: serde
    for serde in (BYTES, UTF8, JSON, INT32, INT64, FLOAT64, BOOLEAN, DATE, TIMESTAMP)
}
"""The serdes without parameters by their names."""
