"""Where a serde fails, the error names the store, the serde and the key, and is what it was."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from kstore_core import Windowed, open_state, serdes, stores
from kstore_core.errors import FormatError, SerdeError
from kstore_core.query import KeyQuery, RangeQuery
from kstore_core.testing.kinds import KINDS, LAYERED, Kind
from kstore_core.testing.store_suite import any_kind
from kstore_memory import MemoryEngine

SESSION = Windowed(b"k", 50, 55)


class Custom:
    """A serde of a user's, which makes or raises whatever it is told to."""

    name = "custom"
    arrow_type = pa.binary()

    def __init__(self, outcome: Any) -> None:
        self.outcome = outcome

    def serialize(self, value: Any, headers: Any) -> Any:
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome

    deserialize = serialize


class OwnError(ValueError):
    """An error of a user's, made in a way that nobody else knows."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


def write(kind: Kind, store: Any, key: Any, value: Any) -> None:
    if kind.shape == "window":
        store.put(key, value, window_start=50)
    elif kind.shape == "session":
        store.put(replace_key(key), value)
    else:
        store.put(key, value)


def replace_key(key: Any) -> Windowed[Any]:
    return Windowed(key, SESSION.start, SESSION.end)


def reads(kind: Kind, store: Any, key: Any) -> list[Callable[[], Any]]:
    """All that reads the value of a key, scans included."""
    scan = lambda: list(any_kind.scan(kind, store))  # noqa: E731
    peek = lambda: any_kind.scan(kind, store).peek()  # noqa: E731
    if kind.shape == "window":
        return [
            scan,
            peek,
            lambda: store.fetch_one(key, 50),
            lambda: list(store.fetch(key)),
            lambda: list(store.fetch_range(key, key)),
        ]
    if kind.shape == "session":
        return [
            scan,
            peek,
            lambda: store.fetch_session(key, SESSION.start, SESSION.end),
            lambda: list(store.fetch(key)),
        ]
    one = [lambda: store.get(key), lambda: store.get_many([key]), scan, peek]
    if kind.shape == "versioned":
        return [*one, lambda: store.get(key, as_of=60), lambda: store.history(key)]
    return [*one, lambda: store.put_if_absent(key, b"v"), lambda: store.delete(key)]


@pytest.mark.parametrize("kind", [*KINDS, *LAYERED], ids=str)
def test_what_cannot_be_read(kind: Kind) -> None:
    engine = MemoryEngine()
    spec = any_kind.spec(kind, "orders")
    with open_state("x", engine=engine) as state, state.record(timestamp=50):
        write(kind, state.open(spec), b"k", b"")
    with open_state("x", engine=engine) as state:
        store = state.open(replace(spec, value=serdes.INT64))
        for read in reads(kind, store, b"k"):
            with pytest.raises(SerdeError) as caught:
                read()
            assert isinstance(caught.value, FormatError)
            assert isinstance(caught.value, ValueError)
            assert str(caught.value) == (
                "the value serde 'int64' of the store 'orders' failed at the key b'k': "
                "serdes.INT64 reads 8 bytes, but was given 0 bytes. "
                "Open the store with the serde that wrote it"
            )
            assert caught.value.offset == 0
            travelled = pickle.loads(pickle.dumps(caught.value))
            assert (str(travelled), travelled.offset) == (str(caught.value), 0)
        with pytest.raises(SerdeError, match="the value serde 'int64' of the store 'orders'"):
            any_kind.scan(kind, store).to_arrow()
    with open_state("x", engine=engine) as state:
        store = state.open(replace(spec, key=serdes.INT32))
        with pytest.raises(SerdeError, match=r"key serde 'int32' of the store 'orders'.*b'k'"):
            list(any_kind.scan(kind, store))


@pytest.mark.parametrize("kind", [*KINDS, *LAYERED], ids=str)
@pytest.mark.parametrize(
    ("serde", "value", "error", "why"),
    [
        (serdes.JSON, {1, 2}, TypeError, "Object of type set is not JSON serializable"),
        (serdes.JSON, float("nan"), ValueError, "not JSON compliant"),
        (serdes.INT32, 2**31, ValueError, "serdes.INT32 cannot encode 2147483648"),
        (serdes.INT64, "5", ValueError, "serdes.INT64 cannot encode '5'"),
        (serdes.BYTES, "text", TypeError, "serdes.BYTES takes bytes, not str"),
        (serdes.UTF8, b"bytes", TypeError, "serdes.UTF8 takes str, not bytes"),
        (serdes.UTF8, "\ud800", UnicodeEncodeError, "surrogates not allowed"),
        (Custom("text"), b"v", TypeError, "serialize must return bytes, not str"),
        (Custom(TypeError("mine")), b"v", TypeError, "mine"),
        (Custom(FormatError("mine", offset=3)), b"v", FormatError, "mine"),
    ],
    ids=lambda given: getattr(given, "name", None) or getattr(given, "__name__", "") or repr(given),
)
def test_what_cannot_be_written(
    kind: Kind, serde: Any, value: Any, error: type[Exception], why: str
) -> None:
    with open_state("x", engine="memory") as state, state.record(timestamp=50):
        store = state.open(replace(any_kind.spec(kind, "orders"), value=serde, key=serdes.UTF8))
        with pytest.raises(SerdeError) as caught:
            write(kind, store, "o-1", value)
        assert isinstance(caught.value, error)
        text = str(caught.value)
        assert text.startswith(
            f"the value serde {serde.name!r} of the store 'orders' failed at the key 'o-1': "
        )
        assert why in text
        keyed = state.open(replace(any_kind.spec(kind, "keyed"), key=serde))
        with pytest.raises(SerdeError, match=r"the key serde '.*' of the store 'keyed' failed at"):
            write(kind, keyed, value, b"v")
        assert not state.staged_bytes


@pytest.mark.parametrize("error", [KeyError("k"), OwnError(1, 2), RuntimeError("gone")], ids=repr)
def test_other_errors_are_passed_on_with_a_note(error: Exception) -> None:
    with open_state("x", engine="memory") as state:
        store = state.open(stores.key_value("orders", value=Custom(error)))
        with pytest.raises(type(error)) as caught:
            store.put(b"k", b"v")
        assert caught.value is error
        assert error.__notes__ == [
            "the value serde 'custom' of the store 'orders' failed at the key b'k'"
        ]
        assert error.__cause__ is None


def test_a_missing_key_is_no_matter_of_the_serde() -> None:
    with open_state("x", engine="memory") as state:
        store = state.open(stores.key_value("orders"))
        for use in (store.get, store.delete, lambda key: store.put(key, b"v")):
            with pytest.raises(TypeError, match=r"^key cannot be None$"):
                use(None)


def test_a_long_key_is_cut() -> None:
    with open_state("x", engine="memory") as state:
        store = state.open(stores.key_value("orders", value=serdes.INT64))
        with pytest.raises(SerdeError) as caught:
            store.put(b"k" * 10_000, 2**70)
        assert len(str(caught.value)) < 300


def test_queries_tell_it_too() -> None:
    engine = MemoryEngine()
    with open_state("x", engine=engine) as state:
        state.open(stores.key_value("orders")).put(b"k", b"")
    with open_state("x", engine=engine) as state:
        store = state.open(stores.key_value("orders", value=serdes.INT64))
        assert (
            "the store 'orders' failed at the key b'k'"
            in store.query(KeyQuery(b"k")).failure_message
        )
        with pytest.raises(SerdeError, match="orders"):
            list(store.query(RangeQuery()).result)


@pytest.mark.parametrize("protocol", [0, 2, pickle.HIGHEST_PROTOCOL])
@pytest.mark.parametrize("kind", [*KINDS, *LAYERED], ids=str)
def test_what_is_open_is_not_pickled(kind: Kind, protocol: int) -> None:
    with open_state("x", engine="memory", transactional=True) as state:
        store = state.open(any_kind.spec(kind))
        for what, instead in (
            (state, "the path of the state directory and the specs of the stores"),
            (state.committed(), "the path of the state directory and the specs of the stores"),
            (store, "its spec and the path of its state directory"),
            (any_kind.scan(kind, store), "the list of its items"),
        ):
            with pytest.raises(TypeError, match=f"cannot be pickled or copied.*{instead}"):
                pickle.dumps(what, protocol)
            if what is not state and what is not store and hasattr(what, "close"):
                what.close()
        assert pickle.loads(pickle.dumps(store.spec, protocol)) == store.spec
