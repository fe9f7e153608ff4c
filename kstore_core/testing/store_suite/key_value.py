"""Tests of key-value stores of every format."""

from __future__ import annotations

from typing import Any

from kstore_core.errors import KeyTooLongError, UnsupportedError
from kstore_core.testing.kinds import Kind, Record
from kstore_core.testing.models import KeyValueModel
from kstore_core.testing.store_suite.base import (
    EACH_KEY_VALUE,
    HEADERS,
    PARTITION,
    StorePart,
    records,
)
from kstore_core.testing.suite import refuses

CORNERS = [b"\x00", b"\x00\xff", b"a", b"a\x00", b"a\xff", b"a\xff\xff", b"b", b"\xff", b"\xff\xff"]


class KeyValuePromises(StorePart):
    """Tests that a key-value store on this engine works as in Kafka Streams."""

    @EACH_KEY_VALUE
    def test_what_is_put_is_got(self, kind: Kind) -> None:
        state = self.state()
        store = state.open(kind.spec("s"))
        given = records(kind, 50)
        for key, record in given.items():
            assert store.put(key, kind.value(record)) is None, "put returns None"
        for life in ("staged", "committed", "reopened"):
            assert {key: kind.read(store.get(key)) for key in given} == given, (
                "get returns the value, its time, and its headers in their order"
            )
            assert store.get(b"no") is None, "get returns None for a missing key"
            keys = [b"k0007", b"no", b"k0003", b"k0007"]
            assert list(map(kind.read, store.get_many(keys))) == list(map(given.get, keys)), (
                "get_many keeps the order of its keys"
            )
            assert _items(kind, store.all()) == list(given.items()), "all returns every row"
            state.commit()
            if life == "committed":
                state = self.reopen(state)
                store = state.open(kind.spec("s"))
        assert 25 <= store.approximate_num_entries() <= 100, "50 entries are about 50"

    @EACH_KEY_VALUE
    def test_headers_stay_as_they_are(self, kind: Kind) -> None:
        state = self.state()
        store = state.open(kind.spec("s"))
        for count in range(len(HEADERS) + 1):
            key, record = b"%d" % count, kind.record(b"", count, HEADERS[:count])
            store.put(key, kind.value(record))
            assert kind.read(store.get(key)) == record
        state.commit()
        store = self.reopen(state).open(kind.spec("s"))
        for count in range(len(HEADERS) + 1):
            assert kind.read(store.get(b"%d" % count)) == kind.record(
                b"", count, HEADERS[:count]
            ), "headers keep repeated names, None values, and their order"

    @EACH_KEY_VALUE
    def test_deletes(self, kind: Kind) -> None:
        state = self.state()
        store = state.open(kind.spec("s"))
        first, second = kind.record(b"1", 1, HEADERS[:1]), kind.record(b"2", 2)
        for committing in (False, True):
            for key in (b"deleted", b"put none"):
                store.put(key, kind.value(first))
            store.put(b"kept", kind.value(second))
            if committing:
                state.commit()
            assert kind.read(store.delete(b"deleted")) == first, "delete returns the old value"
            assert store.delete(b"deleted") is None, "delete returns None for a missing key"
            store.put(b"put none", None)
            for _ in range(2):
                assert store.get(b"deleted") is store.get(b"put none") is None, (
                    "a put of None deletes the key"
                )
                assert _items(kind, store.all()) == [(b"kept", second)], "scans skip deleted rows"
                assert store.get_many([b"deleted", b"kept"])[0] is None
                state.commit()
        store = self.reopen(state).open(kind.spec("s"))
        assert _items(kind, store.all()) == [(b"kept", second)], (
            "deleted rows are missing after a reopen"
        )

    @EACH_KEY_VALUE
    def test_put_if_absent_and_put_all(self, kind: Kind) -> None:
        state = self.state()
        store = state.open(kind.spec("s"))
        first, second = kind.record(b"1", 1, HEADERS), kind.record(b"2", 2)
        assert store.put_if_absent(b"k", kind.value(first)) is None, (
            "put_if_absent returns None for a missing key"
        )
        assert kind.read(store.put_if_absent(b"k", kind.value(second))) == first, (
            "put_if_absent returns the old value"
        )
        assert kind.read(store.get(b"k")) == first, "put_if_absent does not replace a value"
        state.commit()
        assert kind.read(store.put_if_absent(b"k", kind.value(second))) == first
        rows = [(b"k", second), (b"l", first), (b"l", None), (b"m", first), (b"m", second)]
        store.put_all([(key, kind.value(record)) for key, record in rows])
        assert _items(kind, store.all()) == [(b"k", second), (b"m", second)], (
            "put_all puts in the given order; None deletes"
        )

    @EACH_KEY_VALUE
    def test_ranges(self, kind: Kind) -> None:
        model = KeyValueModel()
        state = self.state()
        store = state.open(kind.spec("s"))
        for number, key in enumerate(CORNERS[::2] + CORNERS[1::2]):
            record = kind.record(key, number)
            store.put(key, kind.value(record))
            model.put(key, record)
            if number == 4:
                state.commit()  # the later keys are staged, and lie between the stored keys
        for reverse in (False, True):
            for lo in (None, *CORNERS):
                for hi in (None, *CORNERS, b"\xff\xff\xff"):
                    found = _items(kind, store.range(lo, hi, reverse=reverse))
                    assert found == model.range(lo, hi, reverse=reverse), (
                        f"range({lo!r}, {hi!r}, reverse={reverse}) includes both ends"
                    )
            for prefix in (b"", *CORNERS):
                wanted = model.prefix(prefix)
                found = _items(kind, store.prefix_scan(prefix, reverse=reverse))
                assert found == (wanted[::-1] if reverse else wanted), (
                    f"prefix_scan({prefix!r}) gives the keys that begin with it"
                )

    @EACH_KEY_VALUE
    def test_a_scan_is_a_moment(self, kind: Kind) -> None:
        state = self.state()
        store = state.open(kind.spec("s"))
        given = records(kind, 600)
        for number, (key, record) in enumerate(given.items()):
            store.put(key, kind.value(record))
            if number == 300:
                state.commit()
        for reverse in (False, True):
            scan = store.all(reverse=reverse)
            seen = [next(scan) for _ in range(10)]
            for key in list(given)[::3]:
                store.delete(key)
            store.put(b"k0000x", kind.value(kind.record(b"new", 0)))
            state.commit({PARTITION: 1})
            found = _items(kind, [*seen, *scan])
            assert found == sorted(given.items(), reverse=reverse), (
                "a scan shows the rows as of its call, without later puts, deletes and commits"
            )
            for key, record in given.items():
                store.put(key, kind.value(record))
            store.delete(b"k0000x")

    @EACH_KEY_VALUE
    def test_keys_that_the_engine_cannot_hold_are_refused_at_once(self, kind: Kind) -> None:
        state = self.state()
        store = state.open(kind.spec("s"))
        value = kind.value(kind.record(b"v", 1))
        if self.able.max_key_bytes is not None:
            long = b"k" * (self.able.max_key_bytes + 1)
            refuses(KeyTooLongError, lambda: store.put(long, value), "a long key", "bytes")
            assert store.get(long) is None, "get of a key that cannot be stored returns None"
            store.put(long[1:], value)
            assert store.get(long[1:]) == value, "the longest key is stored"
            store.delete(long[1:])
        if self.able.empty_keys:
            store.put(b"", value)
            assert store.get(b"") == value, "the empty key is stored"
            store.delete(b"")
        else:
            refuses(UnsupportedError, lambda: store.put(b"", value), "the empty key", "empty")
        state.commit()
        assert list(store.all()) == [], "a refused put stages nothing"


def _items(kind: Kind, scan: Any) -> list[tuple[bytes, Record | None]]:
    return [(key, kind.read(value)) for key, value in scan]
