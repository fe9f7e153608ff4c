"""Queries, bounds and positions as values: small, frozen, and the same after a journey."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstore_core import query
from kstore_core.codec import Headers
from kstore_core.errors import QueryError, SpecError
from kstore_core.offsets.position import decode_position, encode_position
from kstore_core.query import (
    FailureReason,
    MultiVersionedKeyQuery,
    Position,
    PositionBound,
    QueryResult,
    RangeQuery,
    ReadOnlyRecord,
    TimestampedWindowKeyWithHeadersQuery,
    VersionedKeyQuery,
    WindowKeyQuery,
    WindowRangeQuery,
)
from kstore_core.testing.running import quick
from tests.query.queries import QUERIES
from tests.support.vectors import Case, golden_lines

POSITIONS = st.dictionaries(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    st.dictionaries(st.integers(0, 3), st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=3),
    max_size=3,
)


def test_every_query_is_here() -> None:
    every = {kind for kind in vars(query).values() if isinstance(kind, type)}
    assert {type(asked) for asked in QUERIES} == {
        kind for kind in every if issubclass(kind, query.Query) and kind is not query.Query
    }


@pytest.mark.parametrize("asked", QUERIES, ids=repr)
def test_a_query_is_a_value(asked: Any) -> None:
    for other in (pickle.loads(pickle.dumps(asked)), copy.deepcopy(asked)):
        assert other == asked
        assert hash(other) == hash(asked)
    for other in QUERIES:
        assert (other == asked) is (other is asked)
    for field in dataclasses.fields(asked):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(asked, field.name, None)
    assert not hasattr(asked, "__dict__")


def test_times_are_milliseconds_and_may_be_given_as_datetimes() -> None:
    at = datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    assert VersionedKeyQuery("k", at) == VersionedKeyQuery("k", 1000)
    assert WindowKeyQuery("k", at, at).from_ts == 1000
    assert WindowRangeQuery.with_window_start_range(0, at).to_ts == 1000
    assert MultiVersionedKeyQuery("k", to_ts=at).to_ts == 1000
    with pytest.raises(ValueError, match="naive"):
        VersionedKeyQuery("k", datetime(1970, 1, 1))  # noqa: DTZ001


@pytest.mark.parametrize("make", [type(asked) for asked in QUERIES if hasattr(asked, "key")])
def test_a_key_that_is_none_is_refused(make: Any) -> None:
    with pytest.raises(TypeError, match="key cannot be None"):
        make.with_key(None) if hasattr(make, "with_key") else make(None)


@pytest.mark.parametrize(
    "make",
    [
        lambda: MultiVersionedKeyQuery("k", 6, 5),
        lambda: WindowKeyQuery("k", 6, 5),
        lambda: WindowRangeQuery.with_window_start_range(6, 5),
        lambda: TimestampedWindowKeyWithHeadersQuery("k", 6, 5),
    ],
)
def test_a_time_before_its_beginning_is_refused(make: Any) -> None:
    with pytest.raises(ValueError, match="from_ts 6 lies after to_ts 5"):
        make()


def test_an_order_is_one_of_three() -> None:
    with pytest.raises(SpecError, match="'any', 'ascending' or 'descending', not 'up'"):
        RangeQuery(order="up")  # type: ignore[arg-type]


# Positions.


@quick(100)
@given(POSITIONS, POSITIONS)
def test_a_position_is_a_mapping_that_does_not_change(one: Any, other: Any) -> None:
    position = Position(one)
    assert position == one
    assert Position(position) == position == pickle.loads(pickle.dumps(position))
    assert decode_position(encode_position(position)) == one
    merged = position.merge(other)
    assert position == one
    assert merged == Position(other).merge(one) == merged.merge(one).merge(merged)
    for topic, offsets in merged.items():
        both = [*one.get(topic, {}).items(), *other.get(topic, {}).items()]
        assert offsets == {p: max(o for at, o in both if at == p) for p, _ in both}
    with pytest.raises(TypeError, match="unhashable"):
        hash(position)
    for topic in position:
        with pytest.raises(TypeError):
            position[topic][0] = 1  # type: ignore[index]
    with pytest.raises(TypeError):
        position["t"] = {}  # type: ignore[index]


def test_a_component_keeps_the_greater_offset() -> None:
    empty = Position()
    one = empty.with_component("t", 1, 5)
    assert (empty, one) == ({}, {"t": {1: 5}})
    assert one.with_component("t", 1, 4) == one
    assert one.with_component("t", 1, 6).with_component("u", 0, 1) == {"t": {1: 6}, "u": {0: 1}}
    assert repr(one) == "Position({'t': {1: 5}})"


def test_a_position_keeps_nothing_of_what_it_was_made_of() -> None:
    offsets = {"t": {0: 1}}
    position = Position(offsets)
    offsets["t"][0] = 2
    offsets["u"] = {}
    assert position == {"t": {0: 1}}


@pytest.mark.parametrize(
    "given_",
    [5, {"t": 5}, {"t": {0: None}}, {"t": {0: 2**63}}, {"t": {2**31: 0}}, {5: {0: 1}},
     {"\ud800": {0: 1}}, {"t": {"0": 1}}],
    ids=repr,
)  # fmt: skip
def test_what_is_no_position_is_refused(given_: Any) -> None:
    with pytest.raises(ValueError, match="not a position"):
        Position(given_)
    with pytest.raises(ValueError, match="not a position"):
        PositionBound(given_)


@golden_lines("position")
def test_the_bytes_are_kafkas(case: Case) -> None:
    wanted = {
        topic: {int(partition): offset for partition, offset in offsets.items()}
        for topic, offsets in case["position"].items()
    }
    data = bytes.fromhex(case["bytes"])
    # Kafka's order is that of a hash map: what is read keeps it, and is written back the same.
    position = Position(decode_position(data))
    assert position == wanted
    assert encode_position(position) == data


# Bounds and results.


@quick(100)
@given(POSITIONS, POSITIONS)
def test_a_bound_is_of_the_tasks_own_partition(bound: Any, position: Any) -> None:
    """Kafka's ``StoreQueryUtils.isPermitted``."""
    at = PositionBound.at(bound)
    assert pickle.loads(pickle.dumps(at)) == at
    for partition in (0, 1, 2, 3):
        reached = all(
            partition in position.get(topic, {})
            and position[topic][partition] >= offsets[partition]
            for topic, offsets in bound.items()
            if partition in offsets
        )
        assert at.is_reached(position, partition) is reached
    everywhere = all(at.is_reached(position, partition) for partition in range(4))
    assert at.is_reached(position, None) is everywhere
    assert PositionBound.unbounded().is_reached(position, 0)
    assert PositionBound.unbounded() == PositionBound.at({})


def test_a_failed_result_says_why() -> None:
    cause = OSError("the disk is gone")
    failed = QueryResult(
        Position({"t": {0: 1}}),
        failure_reason=FailureReason.STORE_EXCEPTION,
        failure_message="no bytes",
        cause=cause,
    )
    assert not failed.is_success
    with pytest.raises(QueryError, match="failed with STORE_EXCEPTION: no bytes") as error:
        failed.get()
    assert error.value.__cause__ is cause
    assert error.value.reason is FailureReason.STORE_EXCEPTION
    again = pickle.loads(pickle.dumps(error.value))
    assert (str(again), again.reason) == (str(error.value), "STORE_EXCEPTION")
    assert QueryResult(Position()).get() is None
    with pytest.raises(dataclasses.FrozenInstanceError):
        failed.result = 5  # type: ignore[misc]


def test_kafkas_reasons_are_all_there() -> None:
    assert [reason.name for reason in FailureReason] == [reason.value for reason in FailureReason]
    assert {reason.name for reason in FailureReason} == {
        "UNKNOWN_QUERY_TYPE", "NOT_ACTIVE", "NOT_UP_TO_BOUND", "NOT_PRESENT", "DOES_NOT_EXIST",
        "STORE_EXCEPTION",
    }  # fmt: skip


def test_a_record_is_a_value() -> None:
    record = ReadOnlyRecord("k", 1, 5, Headers([("h", b"v")], read_only=True))
    assert record == pickle.loads(pickle.dumps(record))
    with pytest.raises(dataclasses.FrozenInstanceError):
        record.value = 2  # type: ignore[misc]
