"""Positions: Kafka's bytes, zeros at their end included."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstore_core.errors import FormatError
from kstore_core.offsets.position import decode_position, encode_position, merge_positions

POSITIONS = st.dictionaries(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    st.dictionaries(st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1), max_size=4),
    max_size=4,
)


@settings(deadline=None)
@given(POSITIONS, st.binary(max_size=9))
def test_a_position_reads_back_whatever_follows_it(position, tail):
    assert decode_position(encode_position(position)) == position
    assert decode_position(encode_position(position) + tail) == position


def test_the_bytes_are_kafkas():
    data = encode_position({"t": {0: 5}})
    pairs = "0000000000000000 00000005".replace(" ", "")
    assert data.rstrip(b"\0").hex() == "00" + "00000001" + "00000001" + "74" + "00000001" + pairs
    assert len(data) == 8 + 32 + 32 + 1 + 32 + 96


def test_no_topics_are_a_version_a_count_and_padding():
    assert encode_position({}) == bytes(40)
    assert decode_position(bytes(5)) == {}


def test_order_is_kept():
    position = {"z": {3: 1, 1: 2}, "a": {}}
    decoded = decode_position(encode_position(position))
    assert list(decoded) == ["z", "a"]
    assert list(decoded["z"]) == [3, 1]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x01\0\0\0\0",
        b"\0\0\0",
        b"\0\0\0\0\x01",
        b"\0\0\0\0\x01\x7f\xff\xff\xff",
        b"\0\0\0\0\x01\xff\xff\xff\xff",
        b"\0\0\0\0\x01\0\0\0\x01\xff\0\0\0\0",
        b"\0\xff\xff\xff\xff",
        b"\0\0\0\0\x01\0\0\0\x01t\xff\xff\xff\xff",
        b"\0\x7f\xff\xff\xff",
    ],
    ids=bytes.hex,
)
def test_bytes_that_are_no_position_are_refused(data):
    with pytest.raises(FormatError, match=r"version|cannot be decoded|ends within|0 or above"):
        decode_position(data)


@settings(deadline=None)
@given(POSITIONS)
def test_every_proper_beginning_is_refused(position):
    data = encode_position(position)
    size = 5 + sum(
        8 + len(topic.encode()) + 12 * len(offsets) for topic, offsets in position.items()
    )
    for end in range(size):
        with pytest.raises(FormatError):
            decode_position(data[:end])


def test_merging_takes_the_greater_offset_of_each_partition():
    merged = {"t": {0: 5, 1: 5}}
    merge_positions(merged, {"t": {0: 6, 1: 4, 2: 1}})
    assert merged == {"t": {0: 6, 1: 5, 2: 1}}


@settings(deadline=None)
@given(POSITIONS, POSITIONS)
def test_merging_keeps_the_further_of_two(one, other):
    merged = {topic: dict(offsets) for topic, offsets in one.items()}
    merge_positions(merged, other)
    assert set(merged) == set(one) | set(other)
    for topic in merged:
        both = one.get(topic, {}), other.get(topic, {})
        assert merged[topic] == {
            partition: max(known[partition] for known in both if partition in known)
            for partition in both[0].keys() | both[1].keys()
        }
