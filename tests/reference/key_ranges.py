"""Kafka's own bounds of window and session ranges (``WindowKeySchema`` and its kin), and a plain
model of what a range holds."""

from __future__ import annotations

import struct

MAX = 2**63 - 1


def _suffix(session: bool, first: int, second: int) -> bytes:
    return struct.pack(">qq" if session else ">qi", first, second)


def ordered_upper(key: bytes, suffix: bytes) -> bytes:
    """``OrderedBytes.upperRange``."""
    if suffix[0] == 0:
        return key + suffix
    kept = 0
    while kept < len(key) and (kept == 0 or key[kept] >= suffix[0]):
        kept += 1
    return key[:kept] + suffix


def lower_range(schema: str, key: bytes, time: int) -> bytes:
    session, order = schema.split("_", 1)[0] == "session", schema.partition("_")[2]
    if order == "time_first":
        return b"\0" + struct.pack(">q", time) + (bytes(8) if session else b"") + key
    return (b"\1" if order else b"") + key + bytes(16 if session else 12)


def upper_range(schema: str, key: bytes, time: int) -> bytes:
    session, order = schema.split("_", 1)[0] == "session", schema.partition("_")[2]
    if order == "time_first":
        if session:
            return b"\0" + struct.pack(">qq", MAX, time) + key
        return b"\0" + struct.pack(">q", time) + b"\xff" * len(key) + struct.pack(">i", 2**31 - 1)
    suffix = _suffix(session, MAX, time) if session else _suffix(session, time, 2**31 - 1)
    return (b"\1" if order else b"") + ordered_upper(key, suffix)


def lower_fixed(schema: str, key: bytes, time: int) -> bytes:
    session, order = schema.split("_", 1)[0] == "session", schema.partition("_")[2]
    time = max(time, 0)
    if order == "time_first":
        tail = bytes(8) + key if session else key + bytes(4)
        return b"\0" + struct.pack(">q", time) + tail
    return (b"\1" if order else b"") + key + _suffix(session, time, 0)


def upper_fixed(schema: str, key: bytes, time: int) -> bytes:
    session, order = schema.split("_", 1)[0] == "session", schema.partition("_")[2]
    if order == "time_first":
        if session:
            return b"\0" + struct.pack(">qq", MAX, time) + key
        return b"\0" + struct.pack(">q", time) + key + struct.pack(">i", 2**31 - 1)
    suffix = _suffix(session, MAX, time) if session else _suffix(session, time, 2**31 - 1)
    return (b"\1" if order else b"") + key + suffix
