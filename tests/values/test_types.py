"""Times, and the families of the value wrappers."""

import datetime as dt
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstore_core import types
from kstore_core.types import (
    LATEST,
    NOT_PUT,
    AggregationWithHeaders,
    Headers,
    RecordContext,
    ValueAndTimestamp,
    ValueTimestampHeaders,
    VersionedRecord,
    VersionedRecordWithHeaders,
    Windowed,
    to_millis,
)

HEADERS = Headers([("a", b"1"), ("a", None)])
WRAPPERS = {
    ValueAndTimestamp: (5,),
    ValueTimestampHeaders: (5, HEADERS),
    AggregationWithHeaders: (HEADERS,),
}


@pytest.mark.parametrize("millis", [0, -1, 2**63 - 1, -(2**63)])
def test_milliseconds_are_taken_as_they_are(millis):
    assert to_millis(millis) == millis


@pytest.mark.parametrize("millis", [2**63, -(2**63) - 1, 2**70])
def test_what_does_not_fit_64_bits_is_refused(millis):
    with pytest.raises(ValueError, match="64 bits"):
        to_millis(millis)


@pytest.mark.parametrize("number", [np.int64(7), np.uint8(7), np.int16(7)])
def test_anything_that_is_an_integer_is_one(number):
    millis = to_millis(number)
    assert millis == 7
    assert type(millis) is int


@pytest.mark.parametrize("time", [True, 1.0, "5", b"5", None, np.float64(1), dt.date(2020, 1, 1)])
def test_what_is_neither_integer_nor_datetime_is_refused(time):
    with pytest.raises(TypeError, match="int milliseconds or an aware datetime"):
        to_millis(time)


def test_a_naive_datetime_is_refused():
    with pytest.raises(ValueError, match="naive"):
        to_millis(dt.datetime(2020, 1, 1))  # noqa: DTZ001


@pytest.mark.parametrize(
    ("moment", "millis"),
    [
        (dt.datetime(1970, 1, 1, tzinfo=dt.UTC), 0),
        (dt.datetime(1970, 1, 1, 0, 0, 0, 1999, tzinfo=dt.UTC), 1),
        (dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=dt.UTC), -1),
        (dt.datetime(1970, 1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=1))), 0),
        (dt.datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=dt.UTC), 253_402_300_799_999),
    ],
)
def test_an_aware_datetime_is_rounded_down(moment, millis):
    assert to_millis(moment) == millis


@settings(deadline=None)
@given(st.datetimes(timezones=st.just(dt.UTC)))
def test_a_datetime_is_its_instant_to_the_millisecond(moment):
    millis = to_millis(moment)
    start = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=millis)
    assert start <= moment < start + dt.timedelta(milliseconds=1)


def test_the_valid_to_codes_are_kafkas():
    assert LATEST == -1
    assert NOT_PUT == -(2**63)


def test_a_record_context_has_no_origin_unless_told():
    context = RecordContext()
    assert (context.topic, context.partition, context.offset) == (None, -1, -1)
    assert context.timestamp is None
    assert list(context.headers) == []
    with pytest.raises(AttributeError):
        context.topic = "t"


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_make_gives_nothing_for_nothing(wrapper):
    rest = WRAPPERS[wrapper]
    assert wrapper.make(None, *rest) is None
    made = wrapper.make(b"v", *rest)
    assert made == wrapper(b"v", *rest)
    assert wrapper.get_value_or_none(made) == b"v"


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_make_allow_nullable_wraps_nothing(wrapper):
    rest = WRAPPERS[wrapper]
    nothing = wrapper.make_allow_nullable(None, *rest)
    assert type(nothing) is wrapper
    assert wrapper.get_value_or_none(nothing) is None
    assert wrapper.get_value_or_none(None) is None


@pytest.mark.parametrize(
    "record",
    [
        *(wrapper(b"v", *rest) for wrapper, rest in WRAPPERS.items()),
        VersionedRecord(b"v", 1, 2),
        VersionedRecord(b"v", 1, None),
        VersionedRecordWithHeaders(b"v", 1, 2, HEADERS),
        Windowed(b"k", 0, 2**63 - 1),
    ],
    ids=repr,
)
def test_records_are_values(record):
    copy = pickle.loads(pickle.dumps(record))
    assert copy == record
    assert type(copy) is type(record)
    assert type(record).__name__ in repr(record)
    assert record != object()
    for name in ("value", "timestamp", "aggregation", "key", "start", "end"):
        if hasattr(record, name):
            with pytest.raises(AttributeError):
                setattr(record, name, 5)


def test_records_that_differ_in_headers_differ():
    assert ValueTimestampHeaders(1, 2, [("a", b"1")]) != ValueTimestampHeaders(1, 2, [])
    assert VersionedRecord(1, 2, 3) != VersionedRecord(1, 2, None)
    assert VersionedRecordWithHeaders(1, 2, 3, [("a", b"")]) != VersionedRecordWithHeaders(
        1, 2, 3, [("a", None)]
    )


def test_a_windowed_key_is_a_key_of_sets_and_dicts():
    assert len({Windowed("k", 1, 2), Windowed("k", 1, 2), Windowed("k", 1, 3)}) == 2
    assert Windowed("k", 1, 2) != Windowed("l", 1, 2)
    assert Windowed("k", 1, 2) != ("k", 1, 2)
    with pytest.raises(TypeError, match="unhashable"):
        hash(Windowed(["k"], 1, 2))
    match Windowed("k", 1, 2):
        case Windowed(key, start, end):
            assert (key, start, end) == ("k", 1, 2)


@pytest.mark.parametrize(
    ("start", "end", "error", "text"),
    [
        (-1, 5, ValueError, "start is -1; it must not be negative"),
        (5, 4, ValueError, "end 4 lies before its start 5"),
        (0, 2**63, ValueError, "64 bits"),
        (True, 5, TypeError, "not bool"),
        (0, None, TypeError, "not NoneType"),
        (0, dt.datetime(2020, 1, 1), ValueError, "naive"),  # noqa: DTZ001
    ],
)
def test_a_window_that_cannot_be_is_refused(start, end, error, text):
    with pytest.raises(error, match=text):
        Windowed("k", start, end)


def test_a_windowed_key_does_not_change():
    windowed = Windowed("k", dt.datetime(1970, 1, 1, tzinfo=dt.UTC), np.int64(5))
    assert (windowed.start, windowed.end) == (0, 5)
    with pytest.raises(TypeError, match="cannot be changed"):
        windowed.__init__("l", 1, 2)
    assert windowed == Windowed("k", 0, 5)


def test_everything_named_is_there():
    assert all(hasattr(types, name) for name in types.__all__)
