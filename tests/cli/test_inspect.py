import json

import pytest

from kstore_core import open_state, stores
from kstore_core.errors import EngineLockedError


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


def test_a_store_that_another_process_has_locked_is_not_called_damaged(run, written, monkeypatch):
    def locked(*_, **__):
        raise EngineLockedError("another process has the store open", pid=7)

    monkeypatch.setattr("kstore_core.cli.commands.inspect.read_overview", locked)
    ran = run("inspect", written)
    assert ran.code == 3
    assert "not readable: another process has the store open" in ran.out
    assert "damaged" not in ran.out + ran.err
    (store, *_) = run("inspect", written, "--json").document["directories"][0]["stores"]
    assert (store["damage"], store["error"]) == (None, "another process has the store open")


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
