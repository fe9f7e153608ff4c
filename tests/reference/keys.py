"""Composite keys and the partitioner."""

from __future__ import annotations

import struct


def window_key(key: bytes, start: int, seq: int) -> bytes:
    return key + struct.pack(">qi", start, seq)


def session_key(key: bytes, start: int, end: int) -> bytes:
    return key + struct.pack(">qq", end, start)


def time_first_window_key(key: bytes, start: int, seq: int) -> bytes:
    return b"\x00" + struct.pack(">q", start) + key + struct.pack(">i", seq)


def time_first_session_key(key: bytes, start: int, end: int) -> bytes:
    return b"\x00" + struct.pack(">qq", end, start) + key


def murmur2(key: bytes) -> int:
    mask, factor = 0xFFFFFFFF, 0x5BD1E995
    state = 0x9747B28C ^ len(key)
    whole = len(key) // 4 * 4
    for (block,) in struct.iter_unpack("<I", key[:whole]):
        block = block * factor & mask
        block = (block ^ block >> 24) * factor & mask
        state = state * factor & mask ^ block
    if key[whole:]:
        state = (state ^ int.from_bytes(key[whole:], "little")) * factor & mask
    state = (state ^ state >> 13) * factor & mask
    state ^= state >> 15
    return state - 2**32 if state >> 31 else state
