import json

import pytest

from kstore_core import Windowed, open_state, serdes, stores
from kstore_core.registry import engine_class


def test_a_directory_says_what_its_stores_are(run, written):
    document = run("inspect", written, "--json").document
    assert document["version"] is None
    (directory,) = document["directories"]
    assert directory["engine"] == "rocksdb"
    found = {store["name"]: store for store in directory["stores"]}
    assert set(found) == {"plain", "counts", "orders", "rates"}
    assert {store["known_from"] for store in found.values()} == {"spec"}
    assert found["plain"]["shape"] == "key_value"
    assert found["counts"]["key_serde"] == "int32"
    assert found["orders"]["offsets"] == [{"topic": "changelog", "partition": 0, "offset": 41}]
    assert found["orders"]["position"] == [{"topic": "in", "partition": 3, "offset": 7}]
    rates = found["rates"]
    assert (rates["shape"], rates["format"]) == ("versioned", "versioned_headers")
    assert (rates["history_retention_ms"], rates["segment_interval_ms"]) == (3_600_000, 300_000)
    assert rates["stream_time"] == 4000
    assert set(rates) == set(found["plain"])


def test_inspect_for_people(run, written):
    text = run("inspect", written).out
    assert f"{written}  (rocksdb)" in text
    assert "versioned, versioned_headers" in text
    assert "changelog-0: 41" in text


@pytest.mark.parametrize("engine", ["rocksdb", "lmdb"])
def test_window_and_session_stores_say_what_they_are(run, tmp_path, engine):
    root = tmp_path / "0_0"
    window = stores.timestamped_window(
        "clicks", 60_000, 5_000, True, segment_interval_ms=20_000, key=serdes.UTF8
    )
    with open_state(root, engine=engine) as state:
        store, other = state.open(window), state.open(stores.session("visits", 3_600_000))
        for start in (0, 20_000, 40_000):
            store.put("k", b"v", window_start=start, timestamp=start)
        other.put(Windowed(b"k", 0, 10), b"v")
        state.commit({("changelog", 0): 7})
    document = run("inspect", root, "--json").document
    clicks, visits = document["directories"][0]["stores"]
    assert (clicks["shape"], clicks["format"]) == ("window", "timestamped")
    assert (clicks["retention_ms"], clicks["window_size_ms"]) == (60_000, 5_000)
    assert (clicks["segment_interval_ms"], clicks["retain_duplicates"]) == (20_000, True)
    assert clicks["segments"] == (3 if engine == "rocksdb" else None)
    assert clicks["namespaces"]["keyValueWithTimestamp"] == 3
    assert clicks["stream_time"] == 40_000
    assert clicks["offsets"] == [{"topic": "changelog", "partition": 0, "offset": 7}]
    assert (visits["shape"], visits["format"]) == ("session", "plain")
    text = run("inspect", root).out
    assert "1m, by segments of 20s; windows of 5s; retains duplicates" in text
    for name in ("clicks", "visits"):
        ran = run("dump", root, name)
        assert ran.code == 2
        assert "store, whose rows this command cannot show yet" in ran.err


def test_a_plain_store_of_segments_without_a_spec(run, tmp_path):
    engine = engine_class("rocksdb")()
    engine.open_child(tmp_path, "w", "w.0").close()
    (store,) = run("inspect", tmp_path, "--json").document["directories"][0]["stores"]
    assert (store["shape"], store["format"], store["segments"]) == ("window or session", None, 1)
    assert "a window or session store, plain by its namespaces" in run("inspect", tmp_path).out


def test_a_directory_without_stores(run, tmp_path):
    with open_state(tmp_path / "empty", engine="rocksdb"):
        pass
    ran = run("inspect", tmp_path / "empty", "--json")
    assert ran.code == 1
    assert json.loads(ran.err)["error"] == "NotFoundError"


@pytest.mark.parametrize("name", ["missing", "file"])
def test_no_directory_is_exit_code_2(run, tmp_path, name):
    (tmp_path / "file").touch()
    ran = run("inspect", tmp_path / name)
    assert ran.code == 2
    assert name in ran.err


def test_a_directory_of_something_else(run, tmp_path):
    ran = run("inspect", tmp_path)
    assert ran.code == 2
    assert "--engine" in ran.err


@pytest.mark.parametrize("where", ["..", "rocksdb", "rocksdb/rates"])
def test_a_path_near_a_state_directory_is_a_hint(run, written, where):
    ran = run("inspect", written / where)
    assert ran.code == 2
    assert f"did you mean {written}" in ran.err.replace("/..", "")


def test_a_serde_of_ones_own_is_shown_as_bytes(run, tmp_path):
    class Reversed:
        name = "reversed"

        def serialize(self, value, headers):
            return value[::-1].encode()

        def deserialize(self, data, headers):
            return data.decode()[::-1]

    root = tmp_path / "0_0"
    with open_state(root, engine="rocksdb") as state:
        state.open(stores.key_value("own", key=Reversed(), value=Reversed())).put("abc", "xyz")
    document = run("inspect", root, "--json").document
    assert document["directories"][0]["stores"][0]["key_serde"] == "reversed"
    assert run("dump", root, "own", "--json").document == {"key": "cba", "value": "zyx"}
    assert run("get", root, "own", "cba", "--json").document["value"] == "zyx"
