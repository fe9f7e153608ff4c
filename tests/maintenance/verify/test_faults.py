"""Every fault that there is a check for is planted, found, and told with its place."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kstore_core import AggregationWithHeaders, Windowed, open_state, serdes, stores
from kstore_core.codec import segment_rows, versioned_key, window_key
from kstore_core.maintenance.verify import Finding, verify
from kstore_core.offsets.entries import OPEN
from kstore_core.spec import StoreSpec
from kstore_core.tables.segments.prefixes import ID_BYTES
from tests.maintenance.verify.stores import plant, rows_in

pytestmark = pytest.mark.usefixtures("one_process")

Rows = dict[bytes, Any]
TIMED = struct.pack(">q", 5)

KEY_VALUE = stores.timestamped_key_value_with_headers("s", key=serdes.UTF8, value=serdes.INT64)
VERSIONED = stores.versioned_key_value("s", 60_000, 20_000)
WINDOW = stores.timestamped_window("s", 60_000, 10, False, 20_000)
INDEXED = stores.timestamped_window("s", 60_000, 10, False, 20_000, time_ordered=True)
SESSION = stores.session_with_headers("s", 60_000, 20_000)


def in_segment(spec: StoreSpec, engine: str, key: bytes, number: int = 0) -> bytes:
    """A key as it is stored in a segment: LMDB has its id before it."""
    is_behind_id = engine == "lmdb" and spec.shape in ("window", "session")
    return number.to_bytes(ID_BYTES, "big") + key if is_behind_id else key


class Case(NamedTuple):
    """What is planted in a store with a row or two, and what is found."""

    spec: StoreSpec
    namespace: str
    rows: Callable[[str], Rows]
    what: str
    why: str
    severity: str = "corrupt"


def fixed(rows: Rows) -> Callable[[str], Rows]:
    return lambda _: rows


def windows(spec: StoreSpec, key: bytes, value: bytes, number: int = 0) -> Callable[[str], Rows]:
    return lambda engine: {in_segment(spec, engine, key, number): value}


HEADED = KEY_VALUE.format.namespace
CASES = {
    "value": Case(KEY_VALUE, HEADED, fixed({b"k": b"\x08"}), "value", "not have the format"),
    "header": Case(
        KEY_VALUE,
        HEADED,
        fixed({b"k": b"\x04\x02\x10ab" + TIMED + bytes(8)}),
        "value",
        "not have the format",
    ),
    "key serde": Case(
        KEY_VALUE,
        HEADED,
        fixed({b"\xff": b"\x00" + TIMED + bytes(8)}),
        "key and serde",
        "UTF-8",
        "finding",
    ),
    "value serde": Case(
        KEY_VALUE,
        HEADED,
        fixed({b"k": b"\x00" + TIMED + b"123"}),
        "value and serde",
        "int64",
        "finding",
    ),
    "two formats": Case(
        KEY_VALUE,
        "keyValueWithTimestamp",
        fixed({b"a": TIMED + bytes(8)}),
        "two formats",
        "in another format",
        "finding",
    ),
    "another's namespace": Case(
        KEY_VALUE, "windowKeyValueWithHeaders", fixed({b"a": b""}), "namespaces", "unexpected"
    ),
    "status": Case(KEY_VALUE, "offsets", fixed({b"status": b"?"}), "entry", "the status of"),
    "offset": Case(KEY_VALUE, "offsets", fixed({b"t-0": b"123"}), "entry", "3 bytes, not 8"),
    "negative offset": Case(
        KEY_VALUE, "offsets", fixed({b"t-0": struct.pack(">q", -9)}), "entry", "t-0 is -9"
    ),
    "partition": Case(KEY_VALUE, "offsets", fixed({b"t": OPEN}), "entry", "contains no partition"),
    "position": Case(KEY_VALUE, "offsets", fixed({b"position": b"\x07"}), "entry", "position"),
    "spec": Case(KEY_VALUE, "offsets", fixed({b"kstore.spec": b"{"}), "entry", "damaged"),
    "newer spec": Case(
        KEY_VALUE,
        "offsets",
        fixed({b"kstore.spec": b'{"version": 99}'}),
        "entry",
        "version 99",
        "finding",
    ),
    "stream time": Case(
        SESSION, "offsets", fixed({b"kstore.stream-time": bytes(3)}), "entry", "3 bytes, not 8"
    ),
    "stream time before -1": Case(
        SESSION, "offsets", fixed({b"kstore.stream-time": struct.pack(">q", -2)}), "entry", "-2 ms"
    ),
    "version's segment": Case(
        VERSIONED,
        "default",
        fixed({versioned_key(1, b"k"): segment_rows.new_row(b"v", 1, 2)}),
        "version",
        "belongs to the segment 0, not 1",
    ),
    "version's row": Case(
        VERSIONED, "default", fixed({versioned_key(1, b"k"): bytes(20)}), "value", "not a row of"
    ),
    "versioned key": Case(VERSIONED, "default", fixed({b"short": b""}), "key", "id of a segment"),
    "versioned segment": Case(
        VERSIONED, "default", fixed({b"\xff" * 7 + b"\x00k": b""}), "key", "is negative"
    ),
    "chain": Case(
        VERSIONED,
        "default",
        fixed(
            {
                versioned_key(0, b"k"): segment_rows.new_row(b"v", 1, 19_000),
                versioned_key(1, b"k"): segment_rows.new_row(b"v", 18_000, 21_000),
            }
        ),
        "chain",
        "begins at 18000, before the previous row ends at 19000",
    ),
    "window's segment": Case(
        WINDOW,
        WINDOW.format.namespace,
        windows(WINDOW, window_key(b"k", 20_000), TIMED),
        "key",
        "not in the segment from 0 to 20000",
    ),
    "window's number": Case(
        WINDOW,
        WINDOW.format.namespace,
        windows(WINDOW, window_key(b"k", 10, 1), TIMED),
        "key",
        "retains no duplicates",
    ),
    "window's key": Case(
        WINDOW,
        WINDOW.format.namespace,
        windows(WINDOW, b"short", TIMED),
        "key",
        "not have the layout of a key",
    ),
    "session's times": Case(
        SESSION,
        SESSION.format.namespace,
        windows(SESSION, b"k" + struct.pack(">qq", 10, 11), b"\x00v"),
        "key",
        "ends at 10, before its start at 11",
    ),
    "index row too many": Case(
        INDEXED,
        INDEXED.format.namespace,
        windows(INDEXED, b"\x01other" + struct.pack(">qi", 10, 0), b""),
        "index",
        "index row without a row",
        "finding",
    ),
    "index row too few": Case(
        INDEXED,
        INDEXED.format.namespace,
        windows(INDEXED, b"\x00" + struct.pack(">q", 10) + b"other" + bytes(4), TIMED),
        "index",
        "the row has no index row",
    ),
    "index row's value": Case(
        INDEXED,
        INDEXED.format.namespace,
        windows(INDEXED, b"\x01a" + struct.pack(">qi", 10, 0), b"x"),
        "index row",
        "must be empty",
    ),
}


def make(root: Path, engine: str, spec: StoreSpec) -> None:
    with open_state(root, engine=engine) as state:
        store = state.open(spec)
        key = "a" if spec.key is serdes.UTF8 else b"a"
        if spec.shape == "versioned":
            store.put(key, b"v", timestamp=30_000)
        elif spec.shape == "window":
            store.put(key, b"v", timestamp=1, window_start=10)
        elif spec.shape == "session":
            store.put(Windowed(key, 10, 20), AggregationWithHeaders(b"v", []))
        else:
            store.put(key, 7, timestamp=1)
        state.commit({("t", 0): 1})


WHERE = [
    (name, engine)
    for name, case in CASES.items()
    for engine in ("lmdb", "rocksdb")
    if engine == "lmdb" or case.spec.shape in ("window", "session")  # they lie in segments there
]


@pytest.mark.parametrize("engine", ["lmdb", "rocksdb"])
def test_nothing_is_found_before(tmp_path: Path, engine: str) -> None:
    for number, spec in enumerate((KEY_VALUE, VERSIONED, WINDOW, INDEXED, SESSION)):
        make(tmp_path / str(number), engine, spec)
        assert verify(tmp_path / str(number)).findings == []


@pytest.mark.parametrize(("name", "engine"), WHERE)
def test_a_fault_is_found(tmp_path: Path, engine: str, name: str) -> None:
    case, root = CASES[name], tmp_path / "0_0"
    make(root, engine, case.spec)
    rows = case.rows(engine)
    plant(root, engine, case.spec, case.namespace, rows)
    found = [finding for finding in verify(root).findings if finding.severity != "note"]
    (hit,) = [finding for finding in found if case.what == finding.what and case.why in finding.why]
    assert hit.severity == case.severity
    assert hit.place.store == "s"
    if hit.what not in ("namespaces", "chain"):
        assert hit.place.key in rows or hit.what == "two formats"
        assert hit.place.namespace in (case.namespace, HEADED)
    assert hit.remedy
    others = {finding.what for finding in found} - {case.what}
    assert not others or name in ("two formats", "another's namespace", "spec", "newer spec")


def test_two_older_formats_at_once(tmp_path: Path) -> None:
    root = tmp_path / "0_0"
    make(root, "rocksdb", KEY_VALUE)
    for namespace in ("default", "keyValueWithTimestamp"):
        plant(root, "rocksdb", KEY_VALUE, namespace, {b"old": TIMED + bytes(8)})
    found = verify(root)
    assert found.exit_code == 4
    assert any(f.what == "namespaces" and "kstore upgrade" in f.why for f in found.findings)


def test_no_more_than_so_many_of_a_kind_are_told(tmp_path: Path) -> None:
    root = tmp_path / "0_0"
    make(root, "lmdb", KEY_VALUE)
    plant(root, "lmdb", KEY_VALUE, HEADED, {b"k%03d" % n: b"\x08" for n in range(50)})

    def values(**limit: int) -> list[Finding]:
        return [f for f in verify(root, **limit).findings if f.what == "value"]

    assert len(values()) == 50
    assert len(values(at_most=0)) == 50
    some = values(at_most=3)
    assert len(some) == 4
    assert some[-1].why.startswith("47 more findings of this kind")
    assert some[-1].place.key == b"k049"


def test_a_finding_keeps_nothing_from_being_read(tmp_path: Path) -> None:
    root = tmp_path / "0_0"
    make(root, "rocksdb", KEY_VALUE)
    plant(root, "rocksdb", KEY_VALUE, "offsets", {b"kstore.spec": None})
    plant(root, "rocksdb", KEY_VALUE, HEADED, {b"k": b"\x08", b"z": b"\x00" + TIMED})
    assert len(rows_in(root, "rocksdb", "s", HEADED)) == 3
    found = verify(root)
    assert found.counts.rows == 3
    assert [f.place.key for f in found.findings if f.severity == "corrupt"] == [b"k"]
