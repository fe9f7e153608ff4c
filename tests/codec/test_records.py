"""The record types: made, compared, shown, pickled, taken apart."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from kstore_core.codec import (
    AggregationWithHeaders,
    Headers,
    ValueAndTimestamp,
    ValueTimestampHeaders,
    VersionedRecord,
    VersionedRecordWithHeaders,
)

PAIRS = [("k", b"v")]
CASES: list[tuple[Any, tuple[Any, ...], list[tuple[Any, ...]]]] = [
    (ValueAndTimestamp, ("v", 1), [("w", 1), ("v", 2)]),
    (ValueTimestampHeaders, ("v", 1, PAIRS), [("w", 1, PAIRS), ("v", 2, PAIRS), ("v", 1, [])]),
    (AggregationWithHeaders, ("v", PAIRS), [("w", PAIRS), ("v", [])]),
    (VersionedRecord, ("v", 1, 2**40), [("w", 1, 2**40), ("v", 2, 2**40), ("v", 1, 3), ("v", 1)]),
    (
        VersionedRecordWithHeaders,
        ("v", 1, 2**40, PAIRS),
        [("w", 1, 2**40, PAIRS), ("v", 0, 2**40, PAIRS), ("v", 1, None, PAIRS), ("v", 1, 2**40)],
    ),
]
every_type = pytest.mark.parametrize(("kind", "args", "others"), CASES)


@every_type
def test_records_compare_by_value(kind: Any, args: Any, others: Any) -> None:
    record = kind(*args)
    assert record == kind(*args)
    for other in others:
        assert record != kind(*other)
    assert record != args
    assert all(record != another(*values) for another, values, _ in CASES if another is not kind)


@every_type
def test_records_pickle_and_show(kind: Any, args: Any, others: Any) -> None:
    record = kind(*args)
    assert pickle.loads(pickle.dumps(record)) == record
    assert repr(record).startswith(f"{kind.__name__}('v', ")
    assert eval(repr(record)) == record


@every_type
def test_records_are_immutable(kind: Any, args: Any, others: Any) -> None:
    record = kind(*args)
    for name in kind.__match_args__:
        with pytest.raises(AttributeError):
            setattr(record, name, None)
    with pytest.raises(AttributeError):
        record.other = 1


@every_type
def test_the_factories_of_the_proposals(kind: Any, args: Any, others: Any) -> None:
    nothing = (None, *args[1:])
    assert kind.make(*args) == kind(*args)
    assert kind.make(*nothing) is None
    assert kind.make_allow_nullable(*args) == kind(*args)
    assert kind.get_value_or_none(kind.make_allow_nullable(*nothing)) is None
    assert kind.get_value_or_none(kind(*args)) == "v"
    assert kind.get_value_or_none(None) is None
    with pytest.raises(TypeError):
        kind.get_value_or_none("v")


@every_type
def test_records_are_generic(kind: Any, args: Any, others: Any) -> None:
    assert kind[int].__origin__ is kind
    assert kind[int](*args) == kind(*args)


def test_records_without_headers_are_hashable() -> None:
    assert len({ValueAndTimestamp("v", 1), ValueAndTimestamp("v", 1)}) == 1
    assert len({VersionedRecord("v", 1, 2**40), VersionedRecord("v", 1, 2**40)}) == 1
    for kind, args, _ in CASES:
        if "headers" in kind.__match_args__:
            with pytest.raises(TypeError, match="unhashable"):
                hash(kind(*args))


def test_headers_are_kept_or_made() -> None:
    headers = Headers(PAIRS, read_only=True)
    assert ValueTimestampHeaders("v", 1, headers).headers is headers
    assert ValueTimestampHeaders("v", 1, iter(PAIRS)).headers == PAIRS
    fresh = ValueTimestampHeaders("v", 1).headers
    assert fresh == []
    assert not fresh.read_only
    assert fresh is not ValueTimestampHeaders("v", 1, None).headers
    with pytest.raises(TypeError, match="mapping"):
        AggregationWithHeaders("v", {"k": b"v"})  # type: ignore[dict-item]


def test_the_latest_version_has_no_end() -> None:
    assert VersionedRecord("v", 1).valid_to is None
    assert VersionedRecordWithHeaders("v", 1, headers=PAIRS).valid_to is None
    assert VersionedRecord("v", 1, 5).valid_to == 5


def test_records_match_patterns() -> None:
    match VersionedRecordWithHeaders("v", 1, 2, PAIRS):
        case VersionedRecordWithHeaders(value, timestamp, valid_to, headers):
            assert (value, timestamp, valid_to) == ("v", 1, 2)
            assert headers == PAIRS


@pytest.mark.parametrize("timestamp", [None, 1.0, "1"])
def test_a_timestamp_is_an_int(timestamp: Any) -> None:
    with pytest.raises(TypeError, match="timestamp must be an int"):
        ValueAndTimestamp("v", timestamp)
    with pytest.raises(TypeError, match="timestamp must be an int"):
        VersionedRecord("v", timestamp)
    if timestamp is not None:
        with pytest.raises(TypeError, match="valid_to must be an int"):
            VersionedRecord("v", 1, timestamp)


def test_values_that_compare_as_arrays_do_are_asked_for_their_truth() -> None:
    class Array(list[int]):
        def __eq__(self, other: object) -> Any:
            return [True]

        __hash__ = None

    assert ValueAndTimestamp(Array(), 1) == ValueAndTimestamp(Array(), 1)
