"""Composite keys: what is taken apart is put together again, by every way that there is."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from kstore_core import codec
from kstore_core.codec.keys.row_pairs import RowPairs
from kstore_core.errors import FormatError
from kstore_core.keys import SCHEMAS, KeySchema
from tests.codec.golden_kinds import SESSION_KEYS, WINDOW_KEYS
from tests.fuzz.family import Family, Refused, tried
from tests.reference import keys as reference
from tests.support.golden import GOLDEN, lines

refused = partial(tried, refusals=(FormatError,))

_COMPOSE: dict[str, tuple[Callable[..., bytes], Callable[[bytes], tuple[Any, ...]]]] = {
    **WINDOW_KEYS,
    "window_key_changelog": (codec.windowed_key, codec.split_windowed_key),
    **SESSION_KEYS,
}
_LEAST = {"window_key": 12, "window_key_changelog": 8, "session_key": 16}


def check_key(kind: str, data: bytes) -> None:
    compose, split = _COMPOSE[kind]
    parts = refused(split, data)
    if isinstance(parts, Refused):
        assert kind not in _LEAST or len(data) < _LEAST[kind], "there is room for the times"
        return
    assert compose(*parts) == data
    written = getattr(reference, kind, None)
    assert written is None or written(*parts) == data


def check_schema(schema: KeySchema, data: bytes) -> None:
    parts, time = refused(schema.split, data), refused(schema.segment_time, data)
    assert isinstance(parts, Refused) == isinstance(time, Refused)
    if not isinstance(parts, Refused):
        assert parts[1] == time


def check_pairs(pairs: RowPairs, data: bytes) -> None:
    parts = refused(pairs.split, data)
    assert isinstance(parts, Refused) == isinstance(refused(pairs.segment_time, data), Refused)
    if isinstance(parts, Refused):
        return
    row = data[0] == 0
    other = pairs.index_of(data) if row else pairs.row_of(data)
    assert len(other) == len(data)
    assert (pairs.row_of(other) if row else pairs.index_of(other)) == data
    assert pairs.split(other) == parts


def check_versioned(data: bytes) -> None:
    found = refused(codec.split_versioned_key, data)
    assert isinstance(found, Refused) == (len(data) < 8)
    if not isinstance(found, Refused):
        assert codec.versioned_key(*found) == data


def check_partition(data: bytes) -> None:
    found = codec.murmur2(data)
    assert found == reference.murmur2(data)
    assert codec.partition(data, 7) == (found & 0x7FFFFFFF) % 7


_KINDS = list(_COMPOSE)
CHECKS: list[Callable[[bytes], None]] = [
    *(partial(check_key, kind) for kind in _KINDS),
    *(partial(check_schema, schema) for schema in SCHEMAS.values()),
    *(partial(check_pairs, RowPairs(session=session)) for session in (False, True)),
    check_versioned,
    check_partition,
]
_SEEDS = [
    (_KINDS.index(case["kind"]), bytes.fromhex(case["bytes"]))
    for case in lines(GOLDEN / "codec.jsonl")
    if case["kind"] in _COMPOSE
]

FAMILY = Family(
    "keys",
    CHECKS,
    [*_SEEDS, *((at % len(CHECKS), data) for at, (_, data) in enumerate(_SEEDS))],
)
