"""Header and Headers: what they are to their users, and when their bytes are looked at."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstore_core.codec import decode_headers, encode_headers
from kstore_core.errors import FormatError, ReadOnlyHeadersError
from kstore_core.headers import Header, Headers
from tests.codec.strategies import HEADERS, MAYBE
from tests.reference import wire
from tests.reference.wire import Pair

PAIRS: list[Pair] = [("k", b"1"), ("n", None), ("e", b""), ("k", b"2")]
BAD = bytes.fromhex("02026b0a76")  # a value longer than what is left


@pytest.fixture(params=["made", "read"])
def headers(request: pytest.FixtureRequest) -> Headers:
    """The same headers, made of pairs or read from bytes."""
    return (
        Headers(PAIRS) if request.param == "made" else decode_headers(encode_headers(PAIRS)).copy()
    )


# ---------------------------------------------------------------- one header


def test_a_header_is_a_pair() -> None:
    header = Header("k", b"v")
    key, value = header
    assert (key, value) == (header.key, header.value) == (header[0], header[1]) == ("k", b"v")
    assert header[-1] == b"v"
    assert header[:] == ("k", b"v")
    assert len(header) == 2
    assert repr(header) == "Header('k', b'v')"
    with pytest.raises(IndexError):
        header[2]


def test_a_header_equals_the_tuple_both_ways() -> None:
    header = Header("k", b"v")
    assert header == ("k", b"v")
    assert ("k", b"v") == header  # noqa: SIM300
    assert header == Header("k", b"v")
    assert hash(header) == hash(("k", b"v"))
    assert header != ("k", None)
    assert Header("k", None) != Header("k", b"")
    assert header != "kv"
    assert sorted([Header("b", b""), Header("a", b"")]) == [("a", b""), ("b", b"")]


def test_a_header_is_immutable() -> None:
    header = Header("k", bytearray(b"v"))
    assert type(header.value) is bytes
    with pytest.raises(AttributeError):
        header.key = "other"  # type: ignore[misc]
    with pytest.raises(TypeError, match="cannot be changed"):
        header.__init__("other", b"")
    assert pickle.loads(pickle.dumps(header)) == header


def test_a_header_of_subclasses_holds_plain_types() -> None:
    class Text(str):
        __slots__ = ()

    class Data(bytes):
        __slots__ = ()

    header = Header(Text("k"), Data(b"v"))
    assert (type(header.key), type(header.value)) == (str, bytes)


@pytest.mark.parametrize(
    ("key", "value"), [(None, b""), (b"k", b""), (1, b""), ("k", "v"), ("k", 1), ("k", [1])]
)
def test_a_header_of_other_types_is_refused(key: Any, value: Any) -> None:
    with pytest.raises(TypeError, match=r"a header (key|value) must be"):
        Header(key, value)
    with pytest.raises(TypeError, match=r"a header (key|value) must be"):
        Headers([(key, value)])
    with pytest.raises(TypeError, match=r"a header (key|value) must be"):
        encode_headers([(key, value)])


# ---------------------------------------------------------------- the list


def test_headers_are_a_sequence_of_pairs(headers: Headers) -> None:
    assert isinstance(headers, Sequence)
    assert list(headers) == PAIRS
    assert headers == PAIRS == headers
    assert headers == tuple(PAIRS)
    assert len(headers) == 4
    assert headers[1] == ("n", None)
    assert list(headers[1:3]) == [("n", None), ("e", b"")]
    assert list(reversed(headers)) == PAIRS[::-1]
    assert ("e", b"") in headers
    assert ("e", None) not in headers
    assert headers.index(("k", b"2")) == 3
    assert headers.index(("k", b"2"), 1, 4) == 3
    assert headers.count(("k", b"1")) == 1
    assert headers
    assert not Headers()
    assert all(type(header) is Header for header in headers)
    with pytest.raises(ValueError, match="not in tuple"):
        headers.index(("k", b"3"))


def test_look_up_by_key(headers: Headers) -> None:
    assert headers.last("k") == ("k", b"2")
    assert headers.last("missing") is None
    assert headers.value("k") == b"2"
    assert headers.value("n", b"default") is None
    assert headers.value("missing") is None
    assert headers.value("missing", b"default") == b"default"
    assert list(headers.all("k")) == [("k", b"1"), ("k", b"2")]
    assert headers.all("missing") == ()


def test_add_and_remove_give_the_headers_back(headers: Headers) -> None:
    assert headers.add("x", memoryview(b"3")) is headers
    assert headers == [*PAIRS, ("x", b"3")]
    assert headers.remove("k") is headers
    assert headers.remove("missing") is headers
    assert headers == [("n", None), ("e", b""), ("x", b"3")]
    assert encode_headers(headers) == wire.encode_headers([("n", None), ("e", b""), ("x", b"3")])


def test_an_iterator_keeps_what_it_started_with(headers: Headers) -> None:
    iterator = iter(headers)
    headers.remove("k")
    assert list(iterator) == PAIRS


def test_a_copy_is_another_list(headers: Headers) -> None:
    for other in (headers.copy(), Headers(headers), copy.copy(headers)):
        assert other == headers
        other.add("x", b"")
        assert other != headers
    assert headers == PAIRS


def test_read_only_headers_refuse_to_change() -> None:
    read = decode_headers(encode_headers(PAIRS))
    for headers in (read, Headers(PAIRS, read_only=True), pickle.loads(pickle.dumps(read))):
        assert headers.read_only
        with pytest.raises(ReadOnlyHeadersError):
            headers.add("x", b"")
        with pytest.raises(TypeError, match="read-only"):
            headers.remove("k")
        assert not headers.copy().read_only
        assert not Headers(headers).read_only
        assert headers == PAIRS == Headers(PAIRS)
    assert decode_headers(b"").read_only
    assert decode_headers(None) == []


def test_the_order_of_checks_is_kafkas() -> None:
    closed = Headers(read_only=True)
    with pytest.raises(TypeError, match="a header key must be a str"):
        closed.add(None, b"")  # type: ignore[arg-type]
    with pytest.raises(ReadOnlyHeadersError):
        closed.remove(None)  # type: ignore[arg-type]


@pytest.mark.parametrize("method", ["last", "value", "all", "remove"])
def test_a_null_key_is_refused(headers: Headers, method: str) -> None:
    with pytest.raises(TypeError, match="a header key must be a str"):
        getattr(headers, method)(None)


@pytest.mark.parametrize("make", [Headers, encode_headers])
def test_a_mapping_is_refused(make: Any) -> None:
    with pytest.raises(TypeError, match="mapping"):
        make({"k": b"v"})


@pytest.mark.parametrize("make", [Headers, encode_headers])
@pytest.mark.parametrize("pairs", [["kv"], [("k",)], [("k", b"", b"")], [None], ["k", b"v"], b"kv"])
def test_what_is_not_a_pair_is_refused(make: Any, pairs: Any) -> None:
    with pytest.raises(TypeError, match="pair"):
        make(pairs)


def test_any_iterable_of_pairs_will_do() -> None:
    for pairs in (PAIRS, tuple(PAIRS), iter(PAIRS), [list(pair) for pair in PAIRS]):
        assert Headers(pairs) == PAIRS
    assert encode_headers(iter(PAIRS)) == encode_headers([list(pair) for pair in PAIRS])
    assert encode_headers([Header("k", b"v")]) == encode_headers([("k", b"v")])
    assert Headers(None) == []


def test_headers_are_not_hashable_and_not_initialised_twice(headers: Headers) -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(headers)
    with pytest.raises(TypeError, match="twice"):
        headers.__init__([])


def test_headers_equal_only_what_is_like_them(headers: Headers) -> None:
    assert headers != PAIRS[::-1]
    assert headers != PAIRS[:-1]
    assert headers != dict(PAIRS)
    assert headers != "headers"
    assert Headers([("k", None)]) != Headers([("k", b"")])


def test_repr_shows_the_pairs(headers: Headers) -> None:
    assert repr(headers.remove("k")) == "Headers([('n', None), ('e', b'')])"
    assert repr(decode_headers(b"")) == "Headers([], read_only=True)"


# ---------------------------------------------------------------- bytes


@given(HEADERS)
def test_headers_read_back(pairs: list[Pair]) -> None:
    data = wire.encode_headers(pairs)
    assert encode_headers(pairs) == data
    assert encode_headers(Headers(pairs)) == data
    for source in (data, bytearray(data), memoryview(data)):
        headers = decode_headers(source)
        assert headers == pairs == wire.decode_headers(data)
        assert encode_headers(headers) == data
        assert pickle.loads(pickle.dumps(headers)) == headers


@given(HEADERS, st.integers(0, 5))
def test_headers_are_taken_out_of_longer_bytes(pairs: list[Pair], copied: int) -> None:
    """Also when a long row is not kept alive for them."""
    from kstore_core.codec import decode_aggregation_with_headers

    row = wire.encode_aggregation(b"v" * 500 * copied, pairs)
    _, headers = decode_aggregation_with_headers(row)
    assert encode_headers(headers) == wire.encode_headers(pairs)
    assert headers == pairs
    assert pickle.loads(pickle.dumps(headers)) == pairs


@pytest.mark.parametrize("data", ["00", "8000", "82808000026b0276", "8200026b0276", "0202ff0276"])
def test_bytes_read_are_written_back_as_they_were(data: str) -> None:
    raw = bytes.fromhex(data)
    headers = decode_headers(raw)
    assert encode_headers(headers) == raw
    len(headers)
    assert encode_headers(headers) == encode_headers(headers.copy()) == raw
    assert encode_headers(pickle.loads(pickle.dumps(headers))) == raw
    assert encode_headers(headers.copy().remove("missing")) == raw


def test_changed_headers_are_written_anew() -> None:
    headers = decode_headers(bytes.fromhex("8200026b0276")).copy()
    assert encode_headers(headers.add("x", None)).hex() == "04026b0276027801"


@given(
    HEADERS,
    st.lists(
        st.one_of(
            st.just(("encode",)),
            st.tuples(st.just("add"), st.sampled_from(["a", "b"]), MAYBE),
            st.tuples(st.just("remove"), st.sampled_from(["a", "b"])),
            st.just(("copy",)),
            st.just(("pickle",)),
        ),
        max_size=12,
    ),
)
def test_headers_that_are_encoded_often_are_written_as_they_are_now(
    pairs: list[Pair], steps: list[tuple[Any, ...]]
) -> None:
    headers = Headers(pairs)
    for name, *arguments in steps:
        if name == "encode":
            assert encode_headers(headers) == wire.encode_headers(pairs)
        elif name == "add":
            headers.add(*arguments)
            pairs = [*pairs, (arguments[0], arguments[1])]
        elif name == "remove":
            headers.remove(*arguments)
            pairs = [pair for pair in pairs if pair[0] != arguments[0]]
        elif name == "copy":
            headers = headers.copy()
        else:
            headers = pickle.loads(pickle.dumps(headers))
        assert headers == pairs
    assert encode_headers(headers) == encode_headers(headers) == wire.encode_headers(pairs)


def test_a_change_to_the_buffer_does_not_reach_the_headers() -> None:
    data = bytearray(encode_headers(PAIRS))
    headers = decode_headers(data)
    data[:] = bytes(len(data))
    assert headers == PAIRS


def test_faults_show_at_the_first_look() -> None:
    for look in (len, list, bool, lambda found: found == [], lambda found: found.last("k")):
        headers = decode_headers(BAD)
        with pytest.raises(FormatError, match="headers: a size says 5 bytes, but 1 are left"):
            look(headers)


def test_malformed_headers_can_be_shown_copied_pickled_and_written_back() -> None:
    headers = decode_headers(BAD)
    assert "malformed" in repr(headers)
    assert "malformed" in repr(headers.copy())
    assert "malformed" in repr(pickle.loads(pickle.dumps(headers)))
    assert encode_headers(headers) == BAD


def test_keys_that_are_not_utf8_read_as_python_reads_them() -> None:
    headers = decode_headers(bytes.fromhex("0204c0af0276"))
    assert headers == [("\ufffd\ufffd", b"v")]


def test_a_lone_surrogate_is_refused() -> None:
    for pairs in ([("k", b""), ("x\ud800", b"")], Headers([("k", b""), ("x\ud800", b"")])):
        with pytest.raises(FormatError, match=r"header 1: .* lone surrogate at index 1"):
            encode_headers(pairs)


def test_keys_are_shared_between_records() -> None:
    data = encode_headers([("trace-id", b"v")])
    first, second = (decode_headers(data)[0].key for _ in range(2))
    assert first == second == "trace-id"


@given(st.lists(st.binary(max_size=70).map(lambda key: key.hex()), max_size=40))
def test_many_different_keys_are_told_apart(keys: list[str]) -> None:
    pairs: list[Pair] = [(key, None) for key in keys]
    assert decode_headers(encode_headers(pairs)) == pairs


def test_a_list_that_grows_while_it_is_encoded_is_noticed() -> None:
    pairs: list[Any] = []

    class Growing(str):
        __slots__ = ()

        def __str__(self) -> str:
            pairs.append(("x", b""))
            return "never used"

    pairs.append((Growing("k"), b""))
    assert encode_headers(pairs) == encode_headers([("k", b"")])


def test_headers_larger_than_the_scratch_area() -> None:
    pairs: list[Pair] = [(f"key-{i}", bytes([i % 256]) * i) for i in range(300)]
    assert encode_headers(pairs) == wire.encode_headers(pairs)
    assert decode_headers(wire.encode_headers(pairs)) == pairs
