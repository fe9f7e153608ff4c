"""The rest of an upgrade at once: what is moved, where, and what an interruption leaves."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from typing import Any

import pytest

from kstore_core import (
    ValueAndTimestamp,
    ValueTimestampHeaders,
    Windowed,
    errors,
    formats,
    open_state,
    stores,
)
from kstore_core.discovery.registry import make_engine
from kstore_core.engine import Rows
from kstore_core.maintenance.finish_upgrade.finishing import Progress, Upgraded, upgrade
from kstore_core.offsets.entries import STATUS, read_record
from kstore_core.serdes import INT64, UTF8
from kstore_core.testing.faults import Faults, FaultyEngine
from tests.support.engines import ENGINES
from tests.support.golden import manifest, unpack
from tests.support.page_runs import check_printed
from tests.typed.homes import database_of

pytestmark = pytest.mark.usefixtures("left_sound")

PLAIN = stores.key_value("s")
TIMESTAMPED = stores.timestamped_key_value("s")
HEADERS = stores.timestamped_key_value_with_headers("s")
VERSIONED = stores.versioned_key_value("s", 1000, 100)
VERSIONED_HEADERS = stores.versioned_key_value_with_headers("s", 1000, 100)


class StopHere(Exception):  # noqa: N818
    """Ends an upgrade before its time."""


def run(home, to=None, **arguments) -> Upgraded:
    return upgrade(home.path, "s", to, engine=home._kept or home.engine, **arguments)


def fill(home, spec, count=25):
    """Rows of a store; the key tells the value."""
    with home.open() as state:
        store = state.open(spec)
        for number in range(count):
            key, more = b"%03d" % number, {}
            if spec.format.timestamped:
                more["timestamp"] = number
            if spec.format.headers:
                more["headers"] = [("n", key)]
            store.put(key, b"v" + key, **more)
        state.commit({("t", 0): count})


def contents(home, spec) -> Any:
    with home.open(read_only=True) as state:
        store = state.open(spec)
        return list(store.fetch_range(None, None) if spec.shape == "session" else store.all())


def keys(home, namespace):
    with database_of(home, "s") as database:
        if namespace not in database.namespaces():
            return None
        return [key for keys, _ in database.namespace(namespace).scan() for key in keys]


def status(home):
    with database_of(home, "s") as database:
        return int.from_bytes(database.namespace("offsets").get(STATUS), "big")


def record(home):
    with database_of(home, "s") as database:
        return read_record(database.namespace("offsets"))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (PLAIN, TIMESTAMPED),
        (PLAIN, HEADERS),
        (TIMESTAMPED, HEADERS),
        (VERSIONED, VERSIONED_HEADERS),
    ],
    ids=lambda spec: spec.format.name,
)
def test_every_row_is_moved_and_reads_as_it_did(home, before, after):
    fill(home, before)
    wanted = contents(home, after)
    said: list[Progress] = []
    done = run(home, after.format, batch_rows=10, progress=said.append)
    older, newer = before.format, after.format
    assert (done.store, done.before, done.format) == ("s", older, newer)
    assert done.moved == {older.name: 25}
    assert done.dropped == [name for name in [older.namespace] if name != "default"]
    assert [progress.moved for progress in said] == [10, 20, 25]
    assert {progress[:2] for progress in said} == {(older.name, newer.name)}
    assert all(progress.total >= progress.moved for progress in said)
    assert keys(home, older.namespace) in ([], None)
    assert contents(home, after) == wanted
    assert len(wanted) == 25
    assert record(home).spec.describes(after)
    assert record(home).offsets == {("t", 0): 25}
    with home.open() as state, pytest.raises(errors.FormatDowngradeError):
        state.open(before)


def test_the_newest_format_is_meant_where_none_is_named(home):
    fill(home, PLAIN)
    assert run(home).format is formats.TIMESTAMPED_HEADERS


def test_a_format_that_no_upgrade_leads_from_is_the_newest(home):
    spec = stores.window("s", 60_000, 10, time_ordered=True)
    with home.open() as state:
        state.open(spec).put(b"k", b"v", window_start=5)
    done = run(home)
    assert (done.before, done.format, done.moved) == (formats.PLAIN, formats.PLAIN, {})
    with pytest.raises(errors.SpecError, match="no upgrade from the format 'plain'"):
        run(home, "headers")


@pytest.mark.parametrize(
    ("name", "value_format"),
    [
        ("timestamped", formats.TIMESTAMPED),
        ("headers", formats.TIMESTAMPED_HEADERS),
        ("timestamped_headers", formats.TIMESTAMPED_HEADERS),
        (formats.TIMESTAMPED, formats.TIMESTAMPED),
    ],
)
def test_a_format_is_named_in_short_or_in_full(home, name, value_format):
    fill(home, PLAIN)
    assert run(home, name).format is value_format


def test_a_newer_row_wins(home):
    fill(home, TIMESTAMPED, 5)
    with database_of(home, "s") as database:
        namespace = formats.TIMESTAMPED_HEADERS.namespace
        database.namespace(namespace)
        database.write({namespace: Rows([b"002"], [b"\x00" + bytes(8) + b"newer"])})
    assert run(home, batch_rows=2).moved == {"timestamped": 5}
    wanted = [(b"%03d" % n, ValueTimestampHeaders(b"v%03d" % n, n, [])) for n in range(5)]
    wanted[2] = (b"002", ValueTimestampHeaders(b"newer", 0, []))
    assert contents(home, HEADERS) == wanted


def test_two_steps_are_made_one_after_the_other(home):
    """Plain to timestamped was begun, with a row in both, and headers are asked for."""
    fill(home, PLAIN, 6)
    with home.open() as state:
        state.open(TIMESTAMPED).put(b"001", b"new", timestamp=9)
    with (
        home.open() as state,
        pytest.raises(errors.InconsistentStateError, match="kstore upgrade PATH s"),
    ):
        state.open(HEADERS)
    said: list[Progress] = []
    done = run(home, "headers", progress=said.append)
    assert done.moved == {"plain": 5, "timestamped": 6}
    assert done.dropped == [formats.TIMESTAMPED.namespace]
    assert [progress[:2] for progress in said] == [
        ("plain", "timestamped"),
        ("timestamped", "timestamped_headers"),
    ]
    found = dict(contents(home, HEADERS))
    assert found.pop(b"001") == ValueTimestampHeaders(b"new", 9, [])
    assert found == {
        key: ValueTimestampHeaders(b"v" + key, -1, [])
        for key in (b"%03d" % number for number in (0, 2, 3, 4, 5))
    }


def test_the_step_that_an_error_names_makes_the_store_open(home):
    fill(home, PLAIN, 6)
    with home.open() as state:
        state.open(TIMESTAMPED).put(b"001", b"new", timestamp=9)
    assert run(home, "timestamped").moved == {"plain": 5}
    assert len(contents(home, HEADERS)) == 6


def test_an_empty_store_and_one_that_is_there_already(home):
    fill(home, PLAIN, 0)
    done = run(home, "timestamped")
    assert (done.before, done.format, done.moved) == (formats.PLAIN, formats.TIMESTAMPED, {})
    assert record(home).spec.describes(TIMESTAMPED)
    again = run(home, "timestamped")
    assert (again.before, again.format, again.moved, again.dropped) == (
        formats.TIMESTAMPED,
        formats.TIMESTAMPED,
        {},
        [],
    )
    fill(home, TIMESTAMPED)
    assert len(contents(home, TIMESTAMPED)) == 25


def test_a_downgrade_is_refused(home):
    fill(home, TIMESTAMPED)
    with pytest.raises(
        errors.FormatDowngradeError, match=r"store at .*s has .*upgrade cannot downgrade a store"
    ):
        run(home, "plain")
    assert len(contents(home, TIMESTAMPED)) == 25


def test_a_format_of_another_shape_is_refused(home):
    fill(home, TIMESTAMPED)
    with pytest.raises(
        errors.SpecError, match="a key-value store cannot have the format versioned"
    ):
        run(home, "versioned")
    with pytest.raises(errors.SpecError, match="no upgrade from"):
        run(home, formats.VERSIONED_HEADERS)
    with pytest.raises(errors.SpecError, match="has the shape key_value, but versioned was passed"):
        run(home, shape="versioned")


def test_a_directory_or_store_that_is_not_there_is_not_made(home):
    with pytest.raises(errors.StateError):
        run(home)
    assert not home.path.exists()
    fill(home, PLAIN)
    with pytest.raises(errors.StateError, match="has no store 'other'; it has: s"):
        upgrade(home.path, "other", engine=home._kept or home.engine)
    with pytest.raises(ValueError, match="batch_rows must be 1 or more"):
        run(home, batch_rows=0)


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ({"to": 5}, TypeError, "to must be a ValueFormat"),
        ({"shape": "nope"}, errors.SpecError, "not 'nope'"),
        ({"batch_rows": 1.5}, TypeError, "not 1.5"),
    ],
)
def test_an_argument_of_another_type_is_refused(home, arguments, error, said):
    fill(home, PLAIN)
    with pytest.raises(error, match=said):
        run(home, **arguments)


def test_a_directory_that_is_not_there_is_no_state_directory(tmp_path):
    with pytest.raises(errors.StateError, match=r"no state directory at .*nothing"):
        upgrade(tmp_path / "nothing", "s")


def test_a_directory_in_use_is_refused(home):
    fill(home, PLAIN)
    with home.open() as state:
        state.open(PLAIN)
        with pytest.raises(errors.EngineLockedError):
            run(home)


@pytest.mark.unsound
def test_a_store_of_another_kind_is_refused(home):
    fill(home, PLAIN)
    with database_of(home, "s") as database:
        database.namespace("somebody-elses")
    with pytest.raises(errors.InconsistentStateError, match="somebody-elses"):
        run(home)
    assert status(home) == 0


def test_a_spec_with_serdes_and_times_moves_as_it_is(home):
    before = stores.versioned_key_value("s", 5000, 50, key=UTF8, value=INT64)
    with home.open() as state:
        state.open(before).put("k", 7, timestamp=3)
    run(home)
    after = stores.versioned_key_value_with_headers("s", 5000, 50, key=UTF8, value=INT64)
    assert record(home).spec.describes(after)
    with home.open() as state:
        assert state.open(after).get("k").value == 7


@pytest.mark.unsound
def test_a_row_that_cannot_be_converted_stops_there_and_loses_nothing(home):
    fill(home, TIMESTAMPED, 9)
    with database_of(home, "s") as database:
        database.write({TIMESTAMPED.format.namespace: Rows([b"005"], [b"short"])})
    with pytest.raises(errors.FormatError, match="b'005' cannot be upgraded"):
        run(home, batch_rows=2)
    assert keys(home, TIMESTAMPED.format.namespace) == [b"%03d" % n for n in range(4, 9)]
    assert keys(home, HEADERS.format.namespace) == [b"%03d" % n for n in range(4)]
    assert status(home) == 0


# What Kafka wrote.


def test_a_plain_directory_of_kafkas_has_to_be_told_its_shape(tmp_path):
    path = unpack("kv_plain", tmp_path)
    with pytest.raises(errors.SpecError, match="--shape"):
        upgrade(path, "kv_plain")
    assert upgrade(path, "kv_plain", "timestamped", shape="key_value").moved == {
        "plain": len(manifest("kv_plain")["reopened"])
    }
    with open_state(path, read_only=True) as state:
        assert state.stored_spec("kv_plain") is None  # none is invented
        assert len(list(state.open(stores.timestamped_key_value("kv_plain")).all())) == len(
            manifest("kv_plain")["reopened"]
        )


def test_a_versioned_directory_of_kafkas(tmp_path):
    path = unpack("versioned", tmp_path)
    spec = stores.versioned_key_value_with_headers("versioned", 60_000, 10_000)
    before = histories(path, spec)
    moved = upgrade(path, "versioned", shape="versioned").moved
    assert moved["versioned"] == sum(
        line["live_entries"] for line in manifest("versioned")["raw_cf"] if line["cf"] == "default"
    )
    assert histories(path, spec) == before


def histories(path, spec):
    with open_state(path, read_only=True) as state:
        store = state.open(spec)
        return [
            store.history(bytes.fromhex(line["key"])) for line in manifest("versioned")["content"]
        ]


def test_a_directory_that_kafka_has_half_upgraded(tmp_path):
    name = "kv_half_migrated_timestamped_to_headers"
    path = unpack(name, tmp_path)
    spec = stores.timestamped_key_value_with_headers(name)
    with open_state(path, read_only=True) as state:
        wanted = list(state.open(spec).all())
    done = upgrade(path, name)
    assert done.moved == {"timestamped": 87}
    assert done.dropped == ["keyValueWithTimestamp"]
    with open_state(path, read_only=True) as state:
        assert list(state.open(spec).all()) == wanted


# Interruptions.


def test_what_ends_it_early_leaves_a_store_with_the_same_contents(home):
    fill(home, TIMESTAMPED)
    wanted = contents(home, HEADERS)
    for _ in range(3):

        def stop(_: Progress) -> None:
            raise StopHere

        with pytest.raises(StopHere):
            run(home, batch_rows=5, progress=stop)
        assert status(home) == 0
        assert contents(home, HEADERS) == wanted
    assert len(keys(home, TIMESTAMPED.format.namespace)) == 10
    with home.open() as state:  # and it may be used in between
        store = state.open(HEADERS)
        store.put(b"024", b"put meanwhile", timestamp=5, headers=[])
        wanted[24] = (b"024", store.get(b"024"))
    assert run(home).moved == {"timestamped": 9}
    assert contents(home, HEADERS) == wanted


@pytest.mark.parametrize("nth", range(1, 6))
def test_a_batch_that_fails_leaves_a_store_with_the_same_contents(nth):
    engine = FaultyEngine(make_engine("memory"), Faults())
    with open_state("x", engine=engine) as state:
        state.open(TIMESTAMPED).put_all(
            [(b"%03d" % number, ValueAndTimestamp(b"v", number)) for number in range(25)]
        )
    wanted = [(b"%03d" % number, ValueTimestampHeaders(b"v", number, [])) for number in range(25)]
    engine.faults.fail("write", nth, errors.StorageFullError)
    with pytest.raises(errors.StorageFullError):
        upgrade("x", "s", engine=engine, batch_rows=10)
    for _ in range(2):
        with open_state("x", engine=engine, read_only=True) as state:
            assert list(state.open(HEADERS).all()) == wanted
        upgrade("x", "s", engine=engine, batch_rows=10)


ROWS = 4000
CHILD = """
import sys
from kstore_core.maintenance.finish_upgrade.finishing import upgrade
def say(progress):
    print(progress.moved, flush=True)
upgrade(sys.argv[1], "s", engine=sys.argv[2], batch_rows=7, progress=say)
"""


@pytest.mark.slow
@pytest.mark.parametrize("engine", [name for name in ENGINES if name != "memory"])
@pytest.mark.parametrize("kill", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_upgrade_goes_on_where_it_was(home, engine, kill):
    with home.open() as state:
        store = state.open(TIMESTAMPED)
        for number in range(ROWS):
            store.put(b"%05d" % number, b"v%d" % number, timestamp=number)
    wanted = [
        (b"%05d" % number, ValueTimestampHeaders(b"v%d" % number, number, []))
        for number in range(ROWS)
    ]
    dice = random.Random(kill)
    left = ROWS
    for _ in range(4):
        with subprocess.Popen(
            [sys.executable, "-c", CHILD, str(home.path), engine],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as child:
            assert child.stdout is not None
            for _ in range(dice.randrange(1, 30)):
                child.stdout.readline()
            time.sleep(dice.uniform(0, 0.003))
            child.send_signal(kill)
        assert contents(home, HEADERS) == wanted
        olds, news = (keys(home, spec.format.namespace) for spec in (TIMESTAMPED, HEADERS))
        assert sorted([*(olds or []), *news]) == [key for key, _ in wanted]
        assert len(olds or []) < left
        left = len(olds or [])
    assert run(home).moved == ({"timestamped": left} if left else {})
    assert contents(home, HEADERS) == wanted
    assert keys(home, TIMESTAMPED.format.namespace) is None


def test_a_store_with_values_of_its_own_size_is_moved_in_smaller_batches(home):
    with home.open() as state:
        store = state.open(TIMESTAMPED)
        for number in range(30):
            store.put(b"%d" % number, bytes(1024 * 1024), timestamp=1)
    said: list[Progress] = []
    run(home, progress=said.append)
    assert len(said) > 1
    assert said[-1].moved == 30
    assert contents(home, HEADERS)[0][1].value == bytes(1024 * 1024)


def test_values_of_the_older_format_are_what_they_were(home):
    fill(home, PLAIN, 3)
    run(home, "timestamped")
    assert contents(home, TIMESTAMPED) == [
        (b"%03d" % number, ValueAndTimestamp(b"v%03d" % number, -1)) for number in range(3)
    ]


def test_the_code_of_the_page_runs_and_prints_what_it_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    check_printed("docs/upgrade.md")


# Stores in segments.

WINDOW = stores.window("s", 10**9, 5, segment_interval_ms=10)
WINDOW_TIMESTAMPED = stores.timestamped_window("s", 10**9, 5, segment_interval_ms=10)
WINDOW_HEADERS = stores.timestamped_window_with_headers("s", 10**9, 5, segment_interval_ms=10)
SESSION = stores.session("s", 10**9, segment_interval_ms=10)
SESSION_HEADERS = stores.session_with_headers("s", 10**9, segment_interval_ms=10)


def fill_segments(home, spec, count=25):
    with home.open() as state:
        store = state.open(spec)
        for number in range(count):
            if spec.shape == "session":
                store.put(Windowed(b"k", number, number + 3), b"v%d" % number)
            elif spec.format.timestamped:
                store.put(b"k", b"v%d" % number, window_start=number, timestamp=number)
            else:
                store.put(b"k", b"v%d" % number, window_start=number)
        state.commit({("t", 0): count})


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (WINDOW, WINDOW_TIMESTAMPED),
        (WINDOW, WINDOW_HEADERS),
        (WINDOW_TIMESTAMPED, WINDOW_HEADERS),
        (SESSION, SESSION_HEADERS),
    ],
    ids=lambda spec: f"{spec.shape}-{spec.format.name}",
)
def test_every_row_of_every_segment_is_moved(home, before, after):
    fill_segments(home, before)
    wanted = contents(home, after)
    assert len(wanted) == 25
    with home.open() as state:  # some of it lazily, and not all segments
        key, _ = wanted[12]
        store = state.open(after)
        if after.shape == "session":
            store.fetch_session(key.key, key.start, key.end)
        else:
            store.fetch_one(key.key, key.start)
    said: list[Progress] = []
    done = run(home, "headers" if after.format.headers else "timestamped", progress=said.append)
    older = before.format
    assert (done.store, done.before, done.format) == ("s", after.format, after.format)
    assert done.moved == {older.name: 24}
    assert done.dropped == [name for name in [older.namespace] if name != "default"]
    assert (said[-1].moved, said[-1].total) == (24, 24)
    assert contents(home, after) == wanted
    with home.open() as state:
        assert state.offsets() == {("t", 0): 25}
        assert state.stored_spec("s").describes(after)
        with pytest.raises(errors.FormatDowngradeError):
            state.open(before)
    assert run(home, shape=after.shape).moved in ({}, {after.format.name: 25})


@pytest.mark.parametrize("stop_after", range(1, 6))
def test_an_upgrade_of_segments_goes_on_where_it_was_stopped(home, stop_after):
    fill_segments(home, WINDOW)
    wanted = contents(home, WINDOW_HEADERS)
    steps = iter(range(stop_after))

    def stop(_):
        if next(steps, None) is None:
            raise StopHere

    with pytest.raises(StopHere):
        run(home, batch_rows=3, progress=stop)
    assert contents(home, WINDOW_HEADERS) == wanted
    with home.open() as state, pytest.raises(errors.FormatDowngradeError):
        state.open(WINDOW)
    assert 0 < sum(run(home).moved.values()) < 25
    assert contents(home, WINDOW_HEADERS) == wanted


def test_segments_without_a_spec_tell_their_shape_by_a_namespace_of_theirs(tmp_path):
    engine = make_engine("rocksdb")
    engine.open_child(tmp_path, "s", "s.0").close()
    with pytest.raises(errors.SpecError, match="both a window store and a session store"):
        upgrade(tmp_path, "s", engine=engine)
    with pytest.raises(errors.SpecError, match="the shape window or session, but key_value was"):
        upgrade(tmp_path, "s", engine=engine, shape="key_value")
    done = upgrade(tmp_path, "s", engine=engine, shape="session")
    assert done.format == formats.SESSION_HEADERS
    assert upgrade(tmp_path, "s", engine=engine).before == formats.SESSION_HEADERS
    with pytest.raises(errors.SpecError, match="has the shape session, but window was passed"):
        upgrade(tmp_path, "s", engine=engine, shape="window")


def test_kafkas_half_migrated_windows_are_finished(tmp_path):
    name = "window_half_migrated_timestamped_to_headers"
    root = unpack(name, tmp_path)
    engine = make_engine("rocksdb")
    done = upgrade(root, name, engine=engine)
    left = [line for line in manifest(name)["raw"] if line["cf"] == formats.TIMESTAMPED.namespace]
    assert done.moved == {"timestamped": len(left)}
    assert left
    for child in engine.children(root, name):
        database = engine.open_child(root, name, child, read_only=True)
        assert formats.TIMESTAMPED.namespace not in database.namespaces()
        database.close()
