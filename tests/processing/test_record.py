"""Records are values with headers of their own."""

import pickle
from datetime import UTC, datetime

import pytest

from kstore_core import Headers
from kstore_core.processing import Record


def test_a_record_copies_its_headers():
    headers = Headers([("a", b"1")], read_only=True)
    record = Record("k", "v", 5, headers)
    record.headers.add("b", None)
    assert list(headers) == [("a", b"1")]
    other = record.replace(value="w")
    other.headers.remove("a")
    assert list(record.headers) == [("a", b"1"), ("b", None)]


def test_replace_changes_only_what_it_names():
    record = Record("k", "v", 5, [("a", b"1")], "topic", 3, 9)
    made = record.replace(key=1, timestamp=datetime(1970, 1, 1, tzinfo=UTC))
    assert (made.key, made.value, made.timestamp) == (1, "v", 0)
    assert (made.topic, made.partition, made.offset) == ("topic", 3, 9)
    with pytest.raises(TypeError, match="unexpected keyword argument 'valu'"):
        record.replace(valu=1)


def test_equality_ignores_the_origin_and_nothing_else():
    record = Record("k", "v", 5, [("a", b"1")], "topic", 3, 9)
    assert record == Record("k", "v", 5, [("a", b"1")])
    assert record == pickle.loads(pickle.dumps(record))
    assert pickle.loads(pickle.dumps(record)).topic == "topic"
    for change in ({"key": 1}, {"value": 1}, {"timestamp": 6}, {"headers": ()}):
        assert record != record.replace(**change)


def test_a_record_is_frozen():
    record = Record("k", "v", 5)
    with pytest.raises(AttributeError):
        record.value = "w"  # type: ignore[misc]
    with pytest.raises(ValueError, match=r"must be from 0 to .* not -1"):
        Record("k", "v", -1)
    with pytest.raises(ValueError, match="time zone"):
        Record("k", "v", datetime(2020, 1, 1))  # noqa: DTZ001
