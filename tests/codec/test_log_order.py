"""Records put in order for a restore, against plain models."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstore_core.codec import RecordColumns, latest_records, records_in_time, split_by_key
from kstore_core.errors import FormatError

Record = tuple[bytes, int]

KEYS = st.sampled_from([b"", b"\x00", b"a", b"a\x00", b"a\xff"]) | st.binary(max_size=12)
LONG = st.builds(
    lambda stem, key: stem + key,
    st.sampled_from([b"", b"12345678", b"123456789", b"1234567x"]),
    KEYS,
)
RECORDS = st.lists(st.tuples(LONG, st.integers(-3, 6)), max_size=60)


def columns_of(records: list[Record]) -> RecordColumns:
    """Each record's value is its number."""
    columns = RecordColumns()
    for number, (key, timestamp) in enumerate(records):
        columns.append(number, timestamp, key, b"%d" % number)
    return columns


def numbers(columns: RecordColumns) -> list[int]:
    return [int(value or b"") for value in columns.values]


@given(RECORDS)
def test_the_last_of_equal_keys(records: list[Record]) -> None:
    last = {key: number for number, (key, _) in enumerate(records)}
    assert numbers(latest_records(columns_of(records))) == [last[key] for key in sorted(last)]


@given(RECORDS)
def test_the_last_of_equal_keys_and_times(records: list[Record]) -> None:
    last = {record: number for number, record in enumerate(records)}
    latest = latest_records(columns_of(records), by_timestamp=True)
    assert numbers(latest) == [last[record] for record in sorted(last)]


MANY = 70_000
"""Records that are sorted by two threads."""

KEYS_OF_MANY: dict[str, Callable[[random.Random], bytes]] = {
    "different": lambda dice: dice.randbytes(16),
    "some equal": lambda dice: b"user-%05d" % dice.randrange(40_000),
    "few": lambda dice: b"k%d" % dice.randrange(3),
    "one": lambda _: b"12345678",
    "most equal": lambda dice: b"a%d" % dice.randrange(9) if dice.random() < 0.1 else b"same key",
    "equal at first": lambda dice: b"aaaaaaaa" + b"b" * dice.randrange(4),
}


@pytest.mark.parametrize("by_timestamp", [False, True])
@pytest.mark.parametrize("kind", KEYS_OF_MANY)
def test_the_last_of_many_records(kind: str, by_timestamp: bool) -> None:
    dice = random.Random(3)
    key_of = KEYS_OF_MANY[kind]
    records = [(key_of(dice), dice.randrange(5)) for _ in range(MANY)]
    last: dict[Any, int] = {
        (key, time) if by_timestamp else key: number for number, (key, time) in enumerate(records)
    }
    latest = latest_records(columns_of(records), by_timestamp=by_timestamp)
    assert numbers(latest) == [last[each] for each in sorted(last)]
    assert latest.payload_bytes == sum(
        len(records[number][0]) + len(b"%d" % number) for number in last.values()
    )


@given(RECORDS)
def test_earliest(records: list[Record]) -> None:
    assert columns_of(records).earliest == min((time for _, time in records), default=None)


@given(RECORDS, st.integers(-1, 3), st.integers(0, 4) | st.just(2**63 - 1))
def test_records_in_time(records: list[Record], observed: int, retention: int) -> None:
    kept, wanted, now = [], observed, observed
    for number, (_, timestamp) in enumerate(records):
        now = max(now, timestamp)
        if timestamp >= now - retention:
            kept.append(number)
    wanted = now
    in_time, stream_time = records_in_time(columns_of(records), observed, retention)
    assert (numbers(in_time), stream_time) == (kept, wanted)


@given(RECORDS, st.integers(1, 5), st.integers(0, 3))
def test_split_by_key(records: list[Record], count: int, seed: int) -> None:
    parts = split_by_key(columns_of(records), count, seed)
    assert len(parts) == count
    assert sorted(n for part in parts for n in numbers(part)) == list(range(len(records)))
    for part in parts:
        assert numbers(part) == sorted(numbers(part))
    homes = [{records[n][0] for n in numbers(part)} for part in parts]
    assert sum(map(len, homes)) == len({key for key, _ in records})


def test_a_part_is_spread_again_with_another_seed() -> None:
    records = [(b"%d" % number, 0) for number in range(4000)]
    first = split_by_key(columns_of(records), 4, 0)[0]
    again = [len(part) for part in split_by_key(first, 4, 1)]
    assert min(again) > len(first) / 8


def test_what_they_give_outlives_the_columns() -> None:
    columns = columns_of([(b"b", 1), (b"a", 2), (b"b", 3)])
    latest = latest_records(columns)
    (part,) = split_by_key(columns, 1, 0)
    kept, _ = records_in_time(columns, -1, 5)
    del columns
    assert numbers(latest) == [1, 2]
    assert numbers(part) == numbers(kept) == [0, 1, 2]


def test_refusals() -> None:
    columns = RecordColumns()
    columns.append(7, 0, None, b"v")
    for use in (latest_records, lambda given: split_by_key(given, 2, 0)):
        with pytest.raises(FormatError, match="the record at offset 7 has no key"):
            use(columns)
    with pytest.raises(ValueError, match="count must be at least 1, not 0"):
        split_by_key(columns, 0, 0)
    with pytest.raises(TypeError):
        latest_records([])  # type: ignore[arg-type]
