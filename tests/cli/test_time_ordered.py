"""The commands on window and session stores whose rows lie by time first."""

import shutil

import pytest

from kstore_core import Windowed, open_state, serdes, stores
from kstore_core.discovery.registry import engine_class

WINDOW = ("--retention", "5m", "--window-size", "10s")
SESSION = ("--retention", "5m")
NAMES = ("w", "t", "s")


@pytest.fixture(scope="module", params=["rocksdb", "lmdb"])
def root(request, tmp_path_factory):
    root = tmp_path_factory.mktemp(request.param) / "0_0"
    window = {"retention_ms": 300_000, "window_size_ms": 10_000, "time_ordered": True}
    headers = [("h", b"x")]
    with open_state(root, engine=request.param) as state:
        w = state.open(stores.timestamped_window_with_headers("w", key=serdes.UTF8, **window))
        t = state.open(stores.timestamped_window("t", indexed=False, **window))
        s = state.open(stores.session_with_headers("s", 300_000, time_ordered=True))
        for number, start in enumerate((0, 30_000, 200_000)):
            for key in ("b", "a"):
                data = f"{key}{number}".encode()
                w.put(key, data, window_start=start, timestamp=start, headers=headers)
                t.put(key.encode(), data, window_start=start, timestamp=start)
                s.put(Windowed(key.encode(), start, start + 5), data, headers=headers)
    return root


@pytest.fixture(scope="module")
def unnamed(tmp_path_factory):
    """The same as Kafka would leave it: without a spec."""
    root = tmp_path_factory.mktemp("unnamed") / "0_0"
    spec = {"time_ordered": True, "segment_interval_ms": 150_000}
    with open_state(root, engine="rocksdb") as state:
        w = state.open(stores.timestamped_window_with_headers("w", 300_000, 10_000, **spec))
        t = state.open(stores.timestamped_window("t", 300_000, 10_000, **spec))
        s = state.open(stores.session_with_headers("s", 300_000, **spec))
        for key in (b"b", b"a"):
            w.put(key, key, window_start=30_000, timestamp=1, headers=[("h", b"x")])
            t.put(key, key, window_start=30_000, timestamp=1)
            s.put(Windowed(key, 30_000, 30_005), key, headers=[("h", b"x")])
    engine = engine_class("rocksdb")()
    for name in NAMES:
        for child in engine.children(root, name):
            database = engine.open_child(root, name, child)
            database.drop_namespace("offsets")
            database.close()
    return root


@pytest.mark.parametrize("name", NAMES)
def test_rows_come_by_time(run, root, name):
    found = run("dump", root, name, "--json").documents
    assert [row["value"] for row in found] == ["a0", "b0", "a1", "b1", "a2", "b2"]
    back = run("dump", root, name, "--key", "b", "--from", 20_000, "--reverse", "--json").documents
    assert [row["value"] for row in back] == ["b2", "b1"]
    by_key = run("history", root, name, "a", "--to", 30_000, "--json").documents
    assert [row["value"] for row in by_key] == ["a0", "a1"]


def test_one_value(run, root):
    assert run("get", root, "w", "a", "--window-start", 30_000, "--json").document["value"] == "a1"
    at = ("--session-start", 30_000, "--session-end", 30_005)
    assert run("get", root, "s", "b", *at, "--json").document["value"] == "b1"


def test_inspect_tells_the_order_and_the_index(run, root):
    document = run("inspect", root, "--json").document
    found = {store["name"]: store for store in document["directories"][0]["stores"]}
    order = {
        name: (row["shape"], row["time_ordered"], row["indexed"]) for name, row in found.items()
    }
    assert order == {
        "w": ("window", True, True), "t": ("window", True, False), "s": ("session", True, True)
    }  # fmt: skip
    assert found["w"]["format"] == "ordered_timestamped_headers"
    text = run("inspect", root).out
    assert "windows of 10s; rows by time\n" in text
    assert "windows of 10s; rows by time, with an index by key\n" in text


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("w", WINDOW),
        ("t", (*WINDOW, "--shape", "window", "--time-ordered", "--format", "timestamped")),
        ("s", (*SESSION, "--time-ordered")),
    ],
)
def test_a_directory_that_does_not_say_it(run, unnamed, name, options):
    ran = run("dump", unnamed, name, *options, "--json")
    assert [(row["key"], row["start"], row["value"]) for row in ran.documents] == [
        ("a", 30_000, "a"), ("b", 30_000, "b")
    ]  # fmt: skip
    if name != "t":
        assert "as a time-ordered " in ran.err
    by_key = run("history", unnamed, name, "b", *options, "--json").documents
    assert [row["key"] for row in by_key] == ["b"]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("s", SESSION),
        ("t", (*WINDOW, "--shape", "window")),
        ("t", (*SESSION, "--shape", "session")),
        ("t", (*SESSION, "--shape", "session", "--time-ordered")),
    ],
)
def test_rows_of_another_kind_are_not_misread(run, unnamed, name, options):
    ran = run("dump", unnamed, name, *options)
    assert (ran.code, ran.out) == (2, "")
    assert "are not rows of a" in ran.err


def test_rows_by_key_are_not_misread(run, golden):
    ran = run("dump", golden("session_headers"), "session_headers", *SESSION, "--time-ordered")
    assert ran.code == 2
    assert "are not rows of a time-ordered session store" in ran.err


def test_an_order_that_a_store_does_not_have(run, golden):
    ran = run("dump", golden("window_headers"), "window_headers", *WINDOW, "--time-ordered")
    assert ran.code == 2
    assert "is a window store according to its namespaces" in ran.err


def test_an_upgrade(run, unnamed, tmp_path):
    root = tmp_path / "0_0"
    shutil.copytree(unnamed, root)
    ran = run("upgrade", root, "t", "--shape", "window", "--time-ordered", "--json")
    assert ran.document["format"] == "ordered_timestamped_headers"
    found = run("dump", root, "t", *WINDOW, "--json").documents
    assert [(row["key"], row["timestamp"], row["headers"]) for row in found] == [
        ("a", 1, []), ("b", 1, [])
    ]  # fmt: skip
