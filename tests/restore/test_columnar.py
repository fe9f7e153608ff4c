"""Columnar restore against putting the same records one by one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstore_core import StoreSpec, open_state, stores
from kstore_core.arrow import headers_type
from kstore_core.errors import SpecError
from kstore_core.restore import Restored, restore
from tests.support.engines import Home

pytestmark = pytest.mark.usefixtures("left_sound")

KEY_VALUE = [
    stores.key_value("s"),
    stores.timestamped_key_value("s"),
    stores.timestamped_key_value_with_headers("s"),
]
VERSIONED = [
    stores.versioned_key_value("s", 30, 7),
    stores.versioned_key_value_with_headers("s", 30, 7),
    stores.versioned_key_value("s", 0, 1),
    stores.versioned_key_value_with_headers("s", 1000, 1000),
]

Record = tuple[bytes, bytes | None, int, list[tuple[str, bytes | None]]]

RECORDS = st.lists(
    st.tuples(
        st.sampled_from([b"", b"a", b"a\x00", b"b", b"\xff" * 9]),
        st.none() | st.binary(max_size=3),
        st.integers(0, 60),
        st.lists(
            st.tuples(st.text("xyz", max_size=2), st.none() | st.binary(max_size=2)), max_size=2
        ),
    ),
    max_size=40,
)


def restored(store: Any, records: list[Record], *, headers: bool = True) -> Restored:
    keys, values, times, lists = zip(*records, strict=True) if records else ((), (), (), ())
    return restore(
        store,
        pa.array(keys, pa.binary()),
        pa.array(values, pa.binary()),
        pa.array(times, pa.int64()),
        pa.array([[{"key": k, "value": v} for k, v in pairs] for pairs in lists], headers_type())
        if headers
        else None,
    )


def put(store: Any, records: list[Record]) -> None:
    keeps_headers = store.spec.format.headers
    for key, value, time, headers in records:
        more: dict[str, Any] = {"headers": headers} if keeps_headers else {}
        if store.spec.format.timestamped:
            more["timestamp"] = time
        if value is None and not store.spec.format.versioned:
            store.delete(key)
        else:
            store.put(key, value, **more)


def contents(store: Any) -> object:
    """Everything that a store answers."""
    keys = sorted({key for key, *_ in store.all()} | {b"", b"a", b"a\x00", b"b", b"\xff" * 9})
    if not store.spec.format.versioned:
        return [(key, plain(store.get(key))) for key in keys]
    return (
        store.stream_time,
        [(key, [plain(version) for version in store.history(key)]) for key in keys],
        [
            (key, time, plain(store.get(key, as_of=time)))
            for key in keys
            for time in range(store.clock.horizon - 1, 62)
        ],
        [(key, plain(store.get(key))) for key in keys],
    )


def plain(record: Any) -> object:
    if record is None or isinstance(record, bytes):
        return record
    names = ("value", "timestamp", "valid_to", "headers")
    fields = {name: getattr(record, name, None) for name in names}
    fields["headers"] = list(fields["headers"] or ())
    return fields


@pytest.mark.parametrize(
    "spec", KEY_VALUE + VERSIONED, ids=lambda s: f"{s.format.name}-{s.history_retention_ms}"
)
@settings(deadline=None, max_examples=40)
@given(first=RECORDS, second=RECORDS)
def test_a_restore_is_what_putting_one_by_one_is(
    spec: StoreSpec, first: list[Record], second: list[Record]
) -> None:
    """Into an empty store, and again into one that holds rows."""
    with open_state("columns", engine="memory") as a, open_state("puts", engine="memory") as b:
        columns, puts = a.open(spec), b.open(spec)
        for records in (first, second):
            done = restored(columns, records)
            put(puts, records)
            assert done.records == len(records)
            assert contents(columns) == contents(puts)
            a.commit()
            b.commit()
            assert contents(columns) == contents(puts)


@pytest.mark.parametrize(
    "spec", KEY_VALUE + VERSIONED, ids=lambda s: f"{s.format.name}-{s.history_retention_ms}"
)
def test_a_restore_outlives_a_reopen(spec: StoreSpec, home: Home) -> None:
    records: list[Record] = [
        (f"k{number % 50}".encode(), str(number).encode(), number // 3, [("n", b"%d" % number)])
        for number in range(300)
    ]
    with home.open() as state:
        store = state.open(spec)
        restored(store, records)
        before = contents(store)
        state.commit({("t", 0): 299})
        assert contents(store) == before
    with home.open(read_only=True) as state:
        assert contents(state.open(spec)) == before
        assert state.offsets() == {("t", 0): 299}


@pytest.mark.slow
@pytest.mark.parametrize("spec", [KEY_VALUE[2], VERSIONED[3]], ids=lambda s: s.format.name)
def test_many_records(spec: StoreSpec, tmp_path: Path) -> None:
    count = 200_000
    keys = pa.array([b"k%d" % (number % 20_000) for number in range(count)])
    values = pa.array([b"v%d" % number for number in range(count)])
    times = pa.array([number // 1000 for number in range(count)], pa.int64())
    lists = pa.array([[{"key": "n", "value": b"1"}]] * count, headers_type())
    with open_state(tmp_path / "0_0", engine="rocksdb") as state:
        store = state.open(spec)
        done = restore(store, keys, values, times, lists)
        assert done.rows >= 20_000
        state.commit()
        assert sum(1 for _ in store.all()) == 20_000
        assert store.get(b"k7").value == b"v180007"


def test_late_records_are_counted() -> None:
    with open_state("s", engine="memory") as state:
        store = state.open(VERSIONED[0])
        records: list[Record] = [
            (b"a", b"1", 100, []),
            (b"a", b"2", 70, []),
            (b"a", b"3", 69, []),
            (b"b", b"4", 200, []),
            (b"b", b"5", 169, []),
        ]
        assert restored(store, records).late == 2
        assert restored(store, [(b"a", b"6", 169, [])]).late == 1
        assert store.stream_time == 200


def test_headers_given_to_a_store_without_are_left_out() -> None:
    with open_state("s", engine="memory") as state:
        store = state.open(KEY_VALUE[1])
        restored(store, [(b"a", b"1", 5, [("h", b"x")])])
        assert store.get(b"a").value == b"1"


@pytest.mark.parametrize("spec", [KEY_VALUE[2], VERSIONED[1]], ids=lambda s: s.format.name)
def test_records_without_headers_go_into_a_store_with(spec: StoreSpec) -> None:
    with open_state("s", engine="memory") as state:
        store = state.open(spec)
        for number in range(2):
            restored(store, [(b"a", b"%d" % number, 2**60, [("h", b"x")])], headers=False)
            found = store.get(b"a")
            assert (found.value, found.timestamp) == (b"%d" % number, 2**60)
            assert list(found.headers) == []


@pytest.mark.parametrize(
    ("spec", "keys", "times", "message"),
    [
        (KEY_VALUE[0], [b"a", None], [1, 2], "1 of 2 records have no key"),
        (VERSIONED[0], [b"a", b"a"], [None, None], "2 of 2 records have no timestamp"),
        (VERSIONED[0], [b"a", b"a"], [5, -1], "the time -1 ms, but .* before 1970"),
    ],
)
def test_what_cannot_be_restored_is_refused_whole(
    spec: StoreSpec, keys: list[bytes | None], times: list[int | None], message: str
) -> None:
    with open_state("s", engine="memory") as state:
        store = state.open(spec)
        with pytest.raises(SpecError, match=message):
            restore(
                store,
                pa.array(keys, pa.binary()),
                pa.array([b"v"] * len(keys)),
                pa.array(times, pa.int64()),
            )
        assert list(store.all()) == []
