"""The rendering of bytes, values and times as text and as JSON.

Text is escaped, so that stored data cannot control the terminal. JSON is exact: bytes that are
printable UTF-8 become a JSON string, and other bytes become ``{"hex": "…"}``.
"""

from __future__ import annotations

import json
import math
import unicodedata
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from kstore_core.errors import FormatError
from kstore_core.serdes import BuiltInSerde

__all__ = [
    "decoded",
    "format_duration",
    "format_headers",
    "format_time",
    "format_value",
    "json_headers",
    "json_text",
    "json_value",
    "printable",
]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NO_TIME = -1
_UNPRINTABLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def decoded(data: bytes | None, serde: BuiltInSerde[Any]) -> Any:
    """Return the value of stored bytes, or the bytes themselves if the serde cannot read them."""
    if data is None:
        return None
    try:
        return serde.deserialize(data)
    except FormatError:
        return data


def printable(text: str) -> str:
    """Return the text with escapes in place of control characters and of invisible characters."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        char if unicodedata.category(char) not in _UNPRINTABLE else _escape(char) for char in text
    )


def json_value(value: Any) -> Any:
    """Return the value in a form that JSON can represent."""
    if isinstance(value, bytes):
        text = _text(value)
        return {"hex": value.hex()} if text is None else text
    if isinstance(value, float) and not math.isfinite(value):
        return {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, list):
        return [json_value(item) for item in value]
    if isinstance(value, dict):
        return {_json_name(name): json_value(item) for name, item in value.items()}
    return value


def _json_name(name: Any) -> str:
    """Return the key of a map as the name of a JSON field, which must be a string."""
    shown = json_value(name)
    return shown if isinstance(shown, str) else json.dumps(shown)


def json_headers(headers: Iterable[tuple[str, bytes | None]]) -> list[list[Any]]:
    """Return the headers as a list of pairs, in order."""
    return [[key, json_value(value)] for key, value in headers]


def json_text(document: Any) -> str:
    """Return a document as one line of JSON.

    The line is ASCII, so it contains no control sequences for a terminal.
    """
    return json.dumps(document, separators=(", ", ": "), allow_nan=False)


def format_value(value: Any) -> str:
    """Return a value as readable text on one line."""
    if value is None:
        return "null"
    if isinstance(value, bytes):
        text = _text(value)
        return "0x" + value.hex() if text is None else text or '""'
    if isinstance(value, str):
        return printable(value) or '""'
    shown = json_value(value)
    if isinstance(shown, str):
        return printable(shown)
    return printable(json.dumps(shown, ensure_ascii=False))


def format_headers(headers: Iterable[tuple[str, bytes | None]]) -> str:
    """Return headers as readable text: ``key=value`` pairs, in order."""
    return "  ".join(f"{printable(key)}={format_value(value)}" for key, value in headers)


def format_time(milliseconds: int | None) -> str:
    """Return a time as readable text in UTC, or in ms if it is outside the range of dates.

    The text is empty for None, and "unknown" for -1, which is Kafka's unknown time.
    """
    if milliseconds is None:
        return ""
    if milliseconds == _NO_TIME:
        return "unknown"
    try:
        moment = _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return f"{milliseconds} ms"
    precision = "milliseconds" if milliseconds % 1000 else "seconds"
    return moment.isoformat(timespec=precision).replace("+00:00", "Z")


def format_duration(milliseconds: int) -> str:
    """Return a duration as text, which the options of the command line accept.

    The text has the largest unit that gives a whole number.
    """
    for name, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000)):
        if milliseconds and milliseconds % size == 0:
            return f"{milliseconds // size}{name}"
    return f"{milliseconds}ms"


def _text(data: bytes) -> str | None:
    """Return the text that these bytes encode, or None if it has characters that need escapes."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return text if text == printable(text) else None


def _escape(char: str) -> str:
    point = ord(char)
    if point < 0x100:
        return f"\\x{point:02x}"
    return f"\\u{point:04x}" if point < 0x10000 else f"\\U{point:08x}"
