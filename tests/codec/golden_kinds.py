"""Functions of the codec by the kind that golden lines and Kafka's harness name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kstore_core import codec


def hexed(data: bytes | None) -> str | None:
    """Return the hexadecimal digits of some bytes, or None for None."""
    return None if data is None else data.hex()


def shown(headers: codec.Headers) -> list[list[str | None]]:
    """Return each header as a list of its key and the digits of its value."""
    return [[key, hexed(value)] for key, value in headers]


def _number(found: tuple[int, int]) -> dict[str, int]:
    return {"value": found[0], "consumed": found[1]}


def _record(data: bytes) -> dict[str, Any]:
    value, timestamp, headers = codec.decode_value_timestamp_headers(data)
    return {"headers": shown(headers), "timestamp": timestamp, "value": value.hex()}


def _aggregation(data: bytes) -> dict[str, Any]:
    value, headers = codec.decode_aggregation_with_headers(data)
    return {"headers": shown(headers), "value": value.hex()}


DECODED: dict[str, Callable[[bytes], Any]] = {
    "varint": lambda data: _number(codec.decode_varint(data)),
    "varlong": lambda data: _number(codec.decode_varlong(data)),
    "headers": lambda data: {"headers": shown(codec.decode_headers(data))},
    "value_timestamp_headers": _record,
    "aggregation_headers": _aggregation,
}
"""Decoders by the harness's name of what they decode."""

Pair = tuple[Callable[..., bytes], Callable[[bytes], tuple[bytes, int, int]]]
"""A function that composes a key, and the function that splits it."""

WINDOW_KEYS: dict[str, Pair] = {
    "window_key": (codec.window_key, codec.split_window_key),
    "prefixed_window_key_time_first": (
        codec.time_first_window_key,
        codec.split_time_first_window_key,
    ),
    "prefixed_window_key_key_first": (codec.key_first_window_key, codec.split_key_first_window_key),
}
SESSION_KEYS: dict[str, Pair] = {
    "session_key": (codec.session_key, codec.split_session_key),
    "prefixed_session_key_time_first": (
        codec.time_first_session_key,
        codec.split_time_first_session_key,
    ),
    "prefixed_session_key_key_first": (
        codec.key_first_session_key,
        codec.split_key_first_session_key,
    ),
}
