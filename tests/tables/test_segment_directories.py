"""Window and session directories that Kafka Streams wrote open here, and ours are the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from kstore_core import AggregationWithHeaders, Windowed, open_state, stores
from kstore_core.codec import session_key, window_key
from kstore_core.discovery.registry import make_engine
from kstore_core.errors import FormatDowngradeError
from tests.support.directories import CHANGELOG, digest, rows, value_of
from tests.support.golden import manifest, unhex, unhex_headers, unpack

pytestmark = pytest.mark.usefixtures("left_sound")

TIMES = (300_000, 10_000, False, 150_000)
HALF = "window_half_migrated_timestamped_to_headers"
SPECS = {
    "window_timestamped": stores.timestamped_window("window_timestamped", *TIMES),
    "window_headers": stores.timestamped_window_with_headers("window_headers", *TIMES),
    HALF: stores.timestamped_window_with_headers(HALF, *TIMES),
    "session_headers": stores.session_with_headers("session_headers", 300_000, 150_000),
}
LAST = {"window_timestamped": 249, "window_headers": 249, HALF: 289, "session_headers": 249}

each_directory = pytest.mark.parametrize("name", SPECS)


@pytest.fixture(params=["read-only", "read-write"])
def read_only(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "read-only")


def wanted(name: str, line: str = "reopened") -> list[tuple[Windowed[bytes], Any]]:
    """What the directory holds, as Kafka read it, in Kafka's order."""
    return [
        (Windowed(unhex(k["key"]), k["start"], k["end"]), record_of(name, content))
        for content in manifest(name)[line]
        for k in [content["key"]]
    ]


def record_of(name: str, line: dict[str, Any]) -> Any:
    """The record of a line: in a content line the value is nested, in an operation it is not."""
    if not name.startswith("session"):
        return value_of(line)
    nested = line["value"] if isinstance(line["value"], dict) else line
    data = unhex(nested["value"])
    return AggregationWithHeaders.make(data, unhex_headers(nested["headers"]))


def everything(store: Any, *, reverse: bool = False) -> list[tuple[Windowed[bytes], Any]]:
    if store.spec.shape == "session":
        return list(store.fetch_range(None, None, reverse=reverse))
    return list(store.all(reverse=reverse))


def fetched(store: Any, windowed: Windowed[bytes]) -> Any:
    if store.spec.shape == "session":
        return store.fetch_session(windowed.key, windowed.start, windowed.end)
    return store.fetch_one(windowed.key, windowed.start)


@contextmanager
def databases(path: Path, name: str) -> Iterator[dict[str, Any]]:
    """The database of each segment, by the segment's directory."""
    with ExitStack() as stack:
        opened = {}
        engine = make_engine("rocksdb")
        for child in engine.children(path, name):
            database = engine.open_child(path, name, child, read_only=True)
            stack.callback(database.close)
            opened[f"{name}/{child}"] = database
        yield opened


def kafkas(name: str) -> dict[str, dict[str, list[tuple[bytes, bytes]]]]:
    """The raw rows that Kafka left, by segment and column family."""
    found: dict[str, dict[str, list[tuple[bytes, bytes]]]] = {}
    for line in lines_of(name):
        families = found.setdefault(line["db"], {})
        if line["line"] == "raw_cf":
            families.setdefault(line["cf"], [])
        else:
            row = bytes.fromhex(line["key"]), bytes.fromhex(line["value"])
            families.setdefault(line["cf"], []).append(row)
    return {
        db: {cf: sorted(held) for cf, held in families.items()} for db, families in found.items()
    }


def lines_of(name: str) -> list[dict[str, Any]]:
    return [*manifest(name)["raw"], *manifest(name)["raw_cf"]]


@each_directory
def test_kafkas_directory_opens(name: str, read_only: bool, tmp_path: Path) -> None:
    with open_state(unpack(name, tmp_path), read_only=read_only) as state:
        assert state.stores() == [name]
        assert state.stored_spec(name) is None
        assert state.offsets() == {(CHANGELOG.format(name), 0): LAST[name]}
        store = state.open(SPECS[name])
        assert store.stream_time == -1  # Kafka does not keep it
        assert everything(store) == wanted(name)
        assert everything(store, reverse=True) == wanted(name)[::-1]
        for windowed, record in wanted(name):
            assert fetched(store, windowed) == record
        assert store.position == {"peer-topic": {0: LAST[name]}}
        assert store.offsets() == state.offsets()


@each_directory
def test_ranges_of_keys_and_times_are_those_of_the_rows(name: str, tmp_path: Path) -> None:
    held = wanted(name)
    keys = sorted({w.key for w, _ in held})
    with open_state(unpack(name, tmp_path), read_only=True) as state:
        store = state.open(SPECS[name])
        for lo, hi in [(keys[1], keys[4]), (None, keys[2]), (keys[-2], None), (keys[3], keys[3])]:
            mine = [
                (w, record)
                for w, record in held
                if (lo is None or lo <= w.key) and (hi is None or w.key <= hi)
            ]
            for first, last in [(1_300_000, 1_400_000), (None, 1_350_000), (1_350_000, None)]:
                if store.spec.shape == "session":
                    found = list(store.find_sessions_range(lo, hi, first, last))
                    met = [
                        (w, record)
                        for w, record in mine
                        if (first is None or w.end >= first) and (last is None or w.start <= last)
                    ]
                else:
                    found = list(store.fetch_range(lo, hi, first, last))
                    met = [
                        (w, record)
                        for w, record in mine
                        if (first is None or w.start >= first) and (last is None or w.start <= last)
                    ]
                assert found == met


@each_directory
def test_with_the_stream_time_of_the_writer_expired_rows_are_hidden(
    name: str, tmp_path: Path
) -> None:
    stream_time = max(line["end" if "end" in line else "window_start"]
                      for line in manifest(name)["op"])  # fmt: skip
    with open_state(unpack(name, tmp_path), read_only=True) as state:
        store = state.open(SPECS[name])
        store.clock.advance(stream_time)
        assert everything(store) == wanted(name, "content")


@each_directory
def test_reading_changes_no_byte(name: str, tmp_path: Path) -> None:
    path = unpack(name, tmp_path)
    before = {file: digest(file) for file in sorted(path.rglob("*")) if file.is_file()}
    with open_state(path, read_only=True) as state:
        store = state.open(SPECS[name])
        for windowed, record in everything(store):
            assert fetched(store, windowed) == record
    assert {file: digest(file) for file in sorted(path.rglob("*")) if file.is_file()} == before


def replay(state: Any, store: Any, name: str, number: int, line: dict[str, Any]) -> None:
    key = unhex(line.get("put", line.get("remove")))
    with state.record(topic="peer-topic", partition=0, offset=number):
        if "remove" in line:
            store.remove(Windowed(key, line["start"], line["end"]))
        elif name.startswith("session"):
            store.put(Windowed(key, line["start"], line["end"]), record_of(name, line))
        else:
            store.put(key, value_of(line), window_start=line["window_start"])
    if number % 50 == 0:
        state.commit({(CHANGELOG.format(name), 0): number})


@each_directory
def test_the_same_writes_leave_the_same_rows(name: str, tmp_path: Path) -> None:
    operations = manifest(name)["op"]
    older = stores.timestamped_window(HALF, *TIMES) if name == HALF else SPECS[name]
    for phase, spec in ((1, older), (2, SPECS[name])):
        with open_state(tmp_path, engine="rocksdb") as state:
            store = state.open(spec)
            for number, line in enumerate(operations):
                if line.get("phase", 1) == phase:
                    replay(state, store, name, number, line)
            if phase == 1:
                last = sum(line.get("phase", 1) == 1 for line in operations) - 1
            else:
                last = LAST[name]
            state.commit({(CHANGELOG.format(name), 0): last})
    kafka = kafkas(name)
    with databases(tmp_path, name) as opened:
        assert opened.keys() == kafka.keys()
        for segment, database in opened.items():
            ours = {family: rows(database, family) for family in database.namespaces()}
            offsets = [row for row in ours.pop("offsets") if not row[0].startswith(b"kstore.")]
            if name != HALF:  # where Kafka opened and committed segments that nobody touched
                assert {**ours, "offsets": offsets} == kafka[segment], segment
            theirs = {family: held for family, held in kafka[segment].items() if held}
            assert {**theirs, "offsets": None} == {
                **{family: held for family, held in ours.items() if held},
                "offsets": None,
            }, segment


@pytest.mark.parametrize(
    "older",
    [
        stores.timestamped_window("window_headers", *TIMES),
        stores.window("window_headers", *TIMES),
        stores.window("window_timestamped", *TIMES),
        stores.timestamped_window(HALF, *TIMES),
        stores.session("session_headers", 300_000, 150_000),
    ],
    ids=lambda spec: f"{spec.name}-{spec.format.name}",
)
def test_no_segment_is_downgraded(older: Any, read_only: bool, tmp_path: Path) -> None:
    name = older.name
    path = unpack(name, tmp_path)
    with (
        open_state(path, read_only=read_only) as state,
        pytest.raises(
            FormatDowngradeError, match=rf"{name}\.\d+.* was opened with a spec of the older format"
        ),
    ):
        everything(state.open(older))
    with open_state(path) as state:  # and the attempt leaves everything as it was
        assert everything(state.open(SPECS[name])) == wanted(name)


def test_kafkas_rows_of_an_older_format_are_converted(read_only: bool, tmp_path: Path) -> None:
    name = "window_timestamped"
    path = unpack(name, tmp_path)
    spec = stores.timestamped_window_with_headers(name, *TIMES)
    held = [(w, (record.value, record.timestamp)) for w, record in wanted(name)]
    for _ in range(2):  # the second time over what the first has moved
        with open_state(path, read_only=read_only) as state:
            store = state.open(spec)
            found = everything(store)
            assert [(w, (r.value, r.timestamp)) for w, r in found] == held
            assert not any(record.headers for _, record in found)
            assert [fetched(store, w) for w, _ in found[::2]] == [r for _, r in found[::2]]
            assert everything(store, reverse=True) == found[::-1]


def test_lookups_finish_a_half_done_upgrade(tmp_path: Path) -> None:
    path = unpack(HALF, tmp_path)
    with open_state(path) as state:
        store = state.open(SPECS[HALF])
        for windowed, record in wanted(HALF):
            assert fetched(store, windowed) == record
    with databases(path, HALF) as opened:
        newer = SPECS[HALF].format.namespace
        found = {key: value for database in opened.values() for key, value in rows(database, newer)}
        assert found.keys() == {window_key(w.key, w.start) for w, _ in wanted(HALF)}


def test_the_rows_of_a_session_are_kafkas_keys(tmp_path: Path) -> None:
    held = {
        bytes.fromhex(line["key"])
        for line in manifest("session_headers")["raw"]
        if line["cf"] == "sessionKeyValueWithHeaders"
    }
    assert held == {session_key(w.key, w.start, w.end) for w, _ in wanted("session_headers")}
