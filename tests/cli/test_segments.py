"""``kstore inspect`` on the segments of window and session stores."""

import shutil

import pytest

from kstore_core import Windowed, open_state, serdes, stores
from kstore_core.discovery.registry import engine_class
from kstore_core.engine import Rows
from tests.support.golden import manifest

HALF = "window_half_migrated_timestamped_to_headers"
CLICKS = stores.timestamped_window(
    "clicks", 60_000, 5_000, True, segment_interval_ms=20_000, key=serdes.UTF8
)


def found(run, root):
    return run("inspect", root, "--json").document["directories"][0]["stores"]


@pytest.fixture(params=["rocksdb", "lmdb"])
def root(request, tmp_path):
    root = tmp_path / "0_0"
    with open_state(root, engine=request.param) as state:
        clicks, visits = state.open(CLICKS), state.open(stores.session("visits", 3_600_000))
        for start in (0, 20_000, 30_000, 60_000):
            clicks.put("k", b"v", window_start=start, timestamp=start)
        visits.put(Windowed(b"k", 0, 10), b"v")
        state.commit({("changelog", 0): 7})
    return root


def test_a_window_store_says_what_it_is(run, root):
    clicks, _ = found(run, root)
    assert (clicks["shape"], clicks["format"], clicks["known_from"]) == (
        "window", "timestamped", "spec"
    )  # fmt: skip
    assert (clicks["retention_ms"], clicks["window_size_ms"]) == (60_000, 5_000)
    assert (clicks["segment_interval_ms"], clicks["retain_duplicates"]) == (20_000, True)
    assert clicks["namespaces"]["keyValueWithTimestamp"] == 4
    assert clicks["stream_time"] == 60_000
    assert clicks["offsets"] == [{"topic": "changelog", "partition": 0, "offset": 7}]
    assert clicks["segments"] == 3
    assert clicks["segment_list"] == [
        {"id": 0, "start": 0, "end": 20_000, "rows": 1, "expired": False, "damage": None},
        {"id": 1, "start": 20_000, "end": 40_000, "rows": 2, "expired": False, "damage": None},
        {"id": 3, "start": 60_000, "end": 80_000, "rows": 1, "expired": False, "damage": None},
    ]


def test_a_session_store_says_what_it_is(run, root):
    _, visits = found(run, root)
    assert (visits["shape"], visits["format"]) == ("session", "plain")
    assert (visits["retention_ms"], visits["window_size_ms"]) == (3_600_000, None)
    assert visits["segment_list"] == [
        {"id": 0, "start": 0, "end": 1_800_000, "rows": 1, "expired": False, "damage": None}
    ]


def test_segments_for_people(run, root):
    text = run("inspect", root).out
    assert "1m, by segments of 20s; windows of 5s; retains duplicates" in text
    assert (
        "segment      1, 1970-01-01T00:00:20Z to 1970-01-01T00:00:40Z: about 2 rows, live" in text
    )
    assert "stream time  1970-01-01T00:01:00Z" in text


def test_a_segment_that_is_still_there_and_expired(run, tmp_path):
    with open_state(tmp_path, engine="rocksdb") as state:
        state.open(CLICKS).put("k", b"v", window_start=100_000, timestamp=0)
    engine = engine_class("rocksdb")()
    left = engine.open_child(tmp_path, "clicks", "clicks.0")  # as a crash may leave it
    left.namespace("keyValueWithTimestamp")
    left.close()
    ((clicks),) = found(run, tmp_path)
    assert [(row["id"], row["expired"]) for row in clicks["segment_list"]] == [
        (0, True), (5, False)
    ]  # fmt: skip
    assert "about 0 rows, expired" in run("inspect", tmp_path).out


@pytest.mark.parametrize("engine", ["rocksdb", "lmdb"])
def test_a_store_that_is_being_upgraded(run, tmp_path, engine):
    plain = stores.window("w", 60_000, 5_000)
    with open_state(tmp_path, engine=engine) as state:
        store = state.open(plain)
        for key in (b"a", b"b"):
            store.put(key, b"v", window_start=0)
    with open_state(tmp_path) as state:
        store = state.open(stores.timestamped_window_with_headers("w", 60_000, 5_000))
        store.put(b"a", b"w", window_start=0, timestamp=5)
    (row,) = found(run, tmp_path)
    assert (row["format"], row["older_rows"]) == ("timestamped_headers", {"plain": 1})
    assert [segment["rows"] for segment in row["segment_list"]] == [2]


@pytest.mark.parametrize("name", ["window_timestamped", "window_headers", "session_headers", HALF])
def test_kafkas_segments_are_named_by_when_they_begin(run, golden, name):
    root = golden(name)
    (store,) = found(run, root)
    assert (store["shape"], store["known_from"]) == (name.split("_")[0], "namespaces")
    assert store["retention_ms"] is store["stream_time"] is None
    families = manifest(name)["raw_cf"]
    assert {*store["namespaces"]} == {family["cf"] for family in families}
    starts = sorted({int(family["db"].rpartition(".")[2]) for family in families})
    assert store["segments"] == len(starts)
    assert [segment["start"] for segment in store["segment_list"]] == starts
    assert all(segment["rows"] for segment in store["segment_list"])
    assert {segment["id"] for segment in store["segment_list"]} == {None}
    assert store["offsets"]
    text = run("inspect", root).out
    assert "segment " in text
    assert "from 1970-01-01T00:22:30Z: about " in text


def test_a_plain_store_of_segments_without_a_spec(run, tmp_path):
    engine = engine_class("rocksdb")()
    engine.open_child(tmp_path, "w", "w.0").close()
    (store,) = found(run, tmp_path)
    assert (store["shape"], store["format"], store["segments"]) == ("window or session", None, 1)
    said = "a plain window or session store, according to its namespaces; to read it, pass --shape"
    assert said in run("inspect", tmp_path).out


@pytest.fixture
def minutes(tmp_path):
    """A window store in three segments of a minute."""
    root = tmp_path / "0_0"
    with open_state(root, engine="rocksdb") as state:
        store = state.open(stores.window("w", 1_000_000, 10, segment_interval_ms=60_000))
        for start in (0, 60_000, 120_000):
            store.put(b"k", b"v", window_start=start)
    return root


@pytest.mark.parametrize("name", ["w:60000", "w.60001"])
def test_what_no_store_opens_with_is_not_passed_over(run, minutes, name):
    shutil.copytree(minutes / "w" / "w.60000", minutes / "w" / name)
    for command in (["inspect", minutes], ["dump", minutes, "w"], ["upgrade", minutes, "w"]):
        ran = run(*command)
        assert (ran.code, name in ran.err) == (4, True)


@pytest.mark.parametrize("spec", ["kept", "lost"])
def test_an_empty_directory_is_not_the_newest_segment(run, minutes, spec):
    if spec == "lost":
        engine = engine_class("rocksdb")()
        for child in engine.children(minutes, "w"):
            database = engine.open_child(minutes, "w", child)
            database.write({"offsets": Rows([b"kstore.spec"], [None])})
            database.namespace("keyValueWithTimestamp")
            database.close()
    empty = minutes / "w" / "w.600000"
    empty.mkdir()
    more = ["--shape", "window"] if spec == "lost" else []
    ran = run("upgrade", minutes, "w", *more)
    assert (ran.code, ran.err) == (0, "")
    assert not list(empty.iterdir())


@pytest.mark.parametrize("damaged", [60_000, 120_000])
def test_a_damaged_segment_does_not_hide_the_others(run, minutes, damaged):
    (minutes / "w" / f"w.{damaged}" / "CURRENT").write_text("rubbish")
    ran = run("inspect", minutes, "--json")
    assert ran.code == 4
    assert f"the store 'w' in {minutes} is damaged" in ran.err
    assert f"kstore verify {minutes}" in ran.err
    (store,) = ran.document["directories"][0]["stores"]
    assert [row["start"] for row in store["segment_list"] if row["damage"]] == [damaged]
    assert [row["rows"] for row in store["segment_list"]].count(1) == 2
    text = run("inspect", minutes).out
    assert text.count("about 1 rows, live") == 2
    assert "damaged" in text
