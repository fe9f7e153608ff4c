"""Serdes of one's own: what they are given, what they may add, and what they may get wrong."""

import json

import pyarrow as pa
import pytest

from kstore_core import Headers, ValueTimestampHeaders, open_state, serdes, stores
from kstore_core.errors import FormatError
from kstore_core.layers.current_record import CurrentRecord
from kstore_core.typed.values import values_of
from tests.typed.kinds import TIME

HEADERS = stores.timestamped_key_value_with_headers


class Adding:
    """Adds a header with its role when it writes, and tells what it saw when it reads."""

    name = "adding"
    arrow_type = pa.binary()

    def __init__(self, role):
        self.role = role
        self.seen = []

    def serialize(self, value, headers):
        assert isinstance(headers, Headers)
        headers.add(self.role, value)
        return value

    def deserialize(self, data, headers):
        self.seen.append((self.role, data, [header.key for header in headers]))
        return data


@pytest.fixture
def adding(state):
    key, value = Adding("key"), Adding("value")
    return state.open(HEADERS("s", key=key, value=value)), key, value


def test_a_key_serde_goes_first_and_both_headers_are_stored(adding):
    store, _, _ = adding
    given = Headers([("mine", b"0")])
    store.put(b"k", b"v", timestamp=TIME, headers=given)
    assert list(store.get(b"k").headers) == [("mine", b"0"), ("key", b"k"), ("value", b"v")]
    assert list(given) == [("mine", b"0")]


def test_a_wrappers_headers_are_not_changed_either(adding):
    store, _, _ = adding
    record = ValueTimestampHeaders(b"v", TIME, Headers([("mine", b"0")]))
    store.put(b"k", record)
    store.put_all([(b"l", record)])
    assert list(record.headers) == [("mine", b"0")]
    assert list(store.get(b"l").headers) == [("mine", b"0"), ("key", b"l"), ("value", b"v")]


def test_the_input_records_headers_are_not_changed(adding, state):
    store, _, _ = adding
    given = Headers([("mine", b"0")])
    with state.record(timestamp=TIME, headers=given) as context:
        store.put(b"k", b"v")
        store.get(b"k")
        list(store.range(b"a", b"z"))
        store.delete(b"k")
        store.put(b"k", None)
        assert list(context.headers) == list(given) == [("mine", b"0")]


def test_what_is_read_comes_with_its_own_headers(adding):
    store, key, value = adding
    store.put(b"k", b"v", timestamp=TIME, headers=[("mine", b"0")])
    stored = ["mine", "key", "value"]
    store.get(b"k")
    assert value.seen == [("value", b"v", stored)]
    assert key.seen == []
    list(store.all())
    assert value.seen[1:] == [("value", b"v", stored)]
    assert key.seen == [("key", b"k", stored)]


class Picky:
    """Makes nothing of some values, and of some bytes."""

    name = "picky"
    arrow_type = pa.string()

    def serialize(self, value, headers):
        return None if value == "nothing" else value.encode()

    def deserialize(self, data, headers):
        return None if data == b"unreadable" else data.decode()


def test_a_value_of_which_nothing_is_made_deletes(state, kind):
    store = state.open(kind.factory("s", value=Picky()))
    store.put(b"k", kind.wrap("v"))
    store.put(b"k", kind.wrap("nothing"))
    assert store.get(b"k") is None
    assert list(store.all()) == []


def test_a_key_of_which_nothing_is_made_is_refused(state, kind):
    store = state.open(kind.factory("s", key=Picky()))
    for use in (
        lambda: store.put("nothing", kind.wrap(b"v")),
        lambda: store.get("nothing"),
        lambda: store.delete("nothing"),
        lambda: store.put_all([("a", kind.wrap(b"v")), ("nothing", kind.wrap(b"v"))]),
        lambda: store.range("nothing", None),
    ):
        with pytest.raises(TypeError, match="'picky' serialized 'nothing' to None"):
            use()
    assert list(store.all()) == []


def test_bytes_of_which_nothing_is_made_read_as_none(state, kind):
    store = state.open(kind.factory("s", value=Picky()))
    store.put(b"k", kind.wrap("unreadable"))
    assert store.get(b"k") is None
    assert store.get_many([b"k"]) == [None]
    assert list(store.all()) == [(b"k", None)]


def test_a_stored_json_null_reads_as_none(state, kind):
    store = state.open(kind.factory("s", value=serdes.JSON))
    store.put(b"k", kind.wrap(5))
    raw = store.table.get(b"k")
    store.table.put_one(b"k", raw[:-1] + b"null")
    assert store.get(b"k") is None
    assert list(store.all()) == [(b"k", None)]


class Wrong:
    """Gives what is no bytes."""

    name = "wrong"
    arrow_type = pa.string()

    def __init__(self, given):
        self.given = given

    def serialize(self, value, headers):
        return self.given

    def deserialize(self, data, headers):
        return data


@pytest.mark.parametrize("given", ["text", 5, [b"a"]], ids=repr)
def test_a_serde_that_gives_no_bytes_is_named(kind, given):
    with open_state("x", engine="memory") as state:
        with_key = state.open(kind.factory("k", key=Wrong(given)))
        with_value = state.open(kind.factory("v", value=Wrong(given)))
        with pytest.raises(TypeError, match="bytes"):
            with_key.put(b"k", kind.wrap(b"v"))
        with pytest.raises(TypeError, match="bytes"):
            with_value.put(b"k", kind.wrap(b"v"))
        assert state.staged_bytes == 0


def test_a_serde_that_raises_leaves_nothing_behind(state, kind):
    class Broken(Wrong):
        def serialize(self, value, headers):
            if value == b"bad":
                raise ZeroDivisionError
            return value

    store = state.open(kind.factory("s", value=Broken(None)))
    with pytest.raises(ZeroDivisionError):
        store.put(b"k", kind.wrap(b"bad"))
    with pytest.raises(ZeroDivisionError):
        store.put_all([(b"a", kind.wrap(b"good")), (b"b", kind.wrap(b"bad"))])
    assert list(store.all()) == []
    assert state.staged_bytes == 0


def test_a_serde_may_use_the_store(state, kind):
    """Text is kept once, and numbered: the store itself is the dictionary."""

    class Numbered:
        name = "numbered"
        arrow_type = pa.string()

        def serialize(self, value, headers):
            if store.get(b"text:" + value) is None:
                store.put(b"text:" + value, kind.wrap(None))
            names.put(value, b"%d" % names.approximate_num_entries())
            return names.get(value)

        def deserialize(self, data, headers):
            return next(name for name, number in names.all() if number == data)

    names = state.open(stores.key_value("names"))
    store = state.open(kind.factory("s", value=Numbered()))
    store.put(b"k", kind.wrap(b"hello"))
    store.put_all([(b"l", kind.wrap(b"world")), (b"m", kind.wrap(b"x"))])
    assert store.get(b"l") == kind.wrap(b"world")
    assert [key for key, _ in store.all()] == [b"k", b"l", b"m"]


def test_a_serde_may_close_the_scan_that_calls_it(kind):
    class Closing(Wrong):
        def deserialize(self, data, headers):
            scan.close()
            return data

    with open_state("x", engine="memory") as state:
        store = state.open(kind.factory("s", key=Closing(b"k")))
        store.put(b"k", kind.wrap(b"v"))
        scan = store.all()
        assert next(scan) == (b"k", kind.wrap(b"v"))


def test_a_serde_that_closes_the_state_ends_what_called_it(home, kind):
    class Closing(Wrong):
        def serialize(self, value, headers):
            state.close()
            return value

    state = home.open()
    store = state.open(kind.factory("s", value=Closing(b"")))
    with pytest.raises(Exception, match="closed"):
        store.put(b"k", kind.wrap(b"v"))


def test_a_subclass_of_a_built_in_serde_is_called():
    class Rounded(serdes.BuiltInSerde):
        pass

    rounded = Rounded("rounded", "string", lambda v: b"%d" % round(v), lambda data: int(data))
    with open_state("x", engine="memory") as state:
        store = state.open(stores.key_value("s", value=rounded))
        store.put(b"k", 1.6)
        assert store.get(b"k") == 2


def test_headers_are_decoded_when_they_are_looked_at(state):
    """A fault inside the headers shows at first access; the value does not need them."""
    store = state.open(HEADERS("s"))
    store.put(b"k", b"v", timestamp=TIME, headers=[("a", b"1")])
    raw = bytearray(store.table.get(b"k"))
    raw[raw.index(b"a") - 1] = 0x7F  # the length of the key
    store.table.put_one(b"k", bytes(raw))
    record = store.get(b"k")
    assert record.value == b"v"
    with pytest.raises(FormatError):
        list(record.headers)


def test_json_values_are_what_json_gives(state, kind):
    store = state.open(kind.factory("s", key=serdes.UTF8, value=serdes.JSON))
    value = {"total": 12.5, "tags": ["a", None], "nested": {"é": True}}
    store.put("k", kind.wrap(value))
    assert store.get("k") == kind.wrap(json.loads(json.dumps(value)))
    with pytest.raises((TypeError, ValueError)):
        store.put("k", kind.wrap({"x": float("nan")}))
    with pytest.raises(TypeError):
        store.put("k", kind.wrap({"x": object()}))
    assert store.get("k") == kind.wrap(value)


def test_values_of_a_spec_know_no_store():
    values = values_of(stores.key_value("s", key=serdes.UTF8), CurrentRecord())
    assert values.row("k", b"v", None, None) == (b"k", b"v")
    assert values.read(b"v") == b"v"
    assert values.item(b"k", b"v") == ("k", b"v")
