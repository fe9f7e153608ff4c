"""The engine of a distribution that nobody installed, found by its entry point."""

import errno
import os

import pytest

from kstore_core import open_state, stores
from kstore_core.discovery.registry import engine_class, installed_engines
from kstore_core.errors import CorruptionError, StorageFullError
from kstore_core.testing import EngineSuite, StoreSuite
from tests.support.installing import SAMPLE, forgetting

SPEC = stores.key_value("orders")


@pytest.fixture(autouse=True, scope="module")
def _on_the_path():
    """Every test here finds the distribution on the path, which is searched once for all."""
    with pytest.MonkeyPatch.context() as patch, forgetting(patch):
        patch.syspath_prepend(str(SAMPLE))
        yield


class TestSampleEngine(EngineSuite):
    def make_engine(self):
        return engine_class("sample")()


class TestStoresOnSample(StoreSuite):
    def make_engine(self):
        return engine_class("sample")()


@pytest.fixture
def log(tmp_path):
    """The file of a store with two batches, the second of which is the last line."""
    with open_state(tmp_path, engine="sample") as state:
        store = state.open(SPEC)
        store.put(b"a", b"1")
        state.commit()
    database = engine_class("sample")().open(tmp_path, "orders")
    path = database.path / "rows.jsonl"
    database.close()
    return path


def rows(root):
    with open_state(root, read_only=True) as state:
        return dict(state.open(SPEC).all())


def test_it_is_found_by_its_entry_point(tmp_path):
    found = {engine.name: engine for engine in installed_engines()}["sample"]
    assert (found.distribution, found.version) == ("kstore-sample", "1.0")
    with open_state(tmp_path, engine="sample") as state:
        state.open(SPEC).put(b"k", b"v")
        assert state.engine.name == "sample"
    assert rows(tmp_path) == {b"k": b"v"}


def test_a_line_that_was_torn_is_not_there(log, tmp_path):
    whole = log.read_bytes()
    log.write_bytes(whole + whole.splitlines(keepends=True)[1][:-3])
    assert rows(tmp_path) == {b"a": b"1"}
    with open_state(tmp_path) as state:
        state.open(SPEC).put(b"b", b"2")
    assert rows(tmp_path) == {b"a": b"1", b"b": b"2"}


def test_a_line_that_was_changed_is_corrupt(log, tmp_path):
    data = bytearray(log.read_bytes())
    data[20] ^= 1
    log.write_bytes(data)
    with pytest.raises(CorruptionError, match="damaged in the line at byte 0"):
        engine_class("sample")().open(tmp_path, "orders", read_only=True)


def test_a_full_disk_leaves_nothing_of_a_batch(log, tmp_path, monkeypatch):
    whole = log.read_bytes()
    with open_state(tmp_path) as state:
        store = state.open(SPEC)
        store.put(b"b", b"2" * 1000)

        write = os.write

        def half(file, data):
            if len(data) > 600:
                return write(file, data[:500])
            raise OSError(errno.ENOSPC, "No space left on device")

        with monkeypatch.context() as full:
            full.setattr("kstore_sample.log.os.write", half)
            with pytest.raises(StorageFullError, match=r"orders.*No space left"):
                state.commit()
        assert log.read_bytes()[: len(whole)] == whole
        assert b"32" * 100 not in log.read_bytes()
        state.commit()
    assert rows(tmp_path) == {b"a": b"1", b"b": b"2" * 1000}


def test_a_long_log_is_written_anew_at_the_close(tmp_path):
    with open_state(tmp_path, engine="sample") as state:
        store = state.open(SPEC)
        for number in range(300):
            store.put(b"k", b"%d" % number)
            state.commit()
        long = (tmp_path / "sample" / "orders" / "rows.jsonl").stat().st_size
    assert (tmp_path / "sample" / "orders" / "rows.jsonl").stat().st_size < long / 10
    assert rows(tmp_path) == {b"k": b"299"}
