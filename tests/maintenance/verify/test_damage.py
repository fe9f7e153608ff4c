"""Damaged files and dead children: each is a finding, and nothing else goes unread for it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kstore_core import open_state, stores
from kstore_core.errors import EngineError
from kstore_core.maintenance.verify import subprocesses, verify
from kstore_lmdb.engine import LMDBEngine
from tests.maintenance.verify.dying import DyingEngine, LockedEngine
from tests.maintenance.verify.stores import hashed

WINDOW = stores.window("w", 60_000, 10, False, 10_000)


def written(root: Path, *names: str) -> None:
    with open_state(root, engine="lmdb") as state:
        for name in names:
            store = state.open(stores.key_value(name))
            for number in range(1000):
                store.put(b"%05d" % number, bytes(50))


def test_a_damaged_segment_does_not_hide_the_others(tmp_path: Path) -> None:
    root = tmp_path / "0_0"
    with open_state(root, engine="rocksdb") as state:
        store = state.open(WINDOW)
        for number in range(500):
            store.put(b"%05d" % number, bytes(50), window_start=number * 100)
    for segment, damage in (("w.10000", "flip"), ("w.20000", "CURRENT"), ("w.30000", "cut")):
        table = max((root / "w" / segment).glob("*.sst"), key=lambda file: file.stat().st_size)
        if damage == "CURRENT":
            (root / "w" / segment / "CURRENT").unlink()
        elif damage == "cut":
            os.truncate(table, 100)
        else:
            data = bytearray(table.read_bytes())
            data[100] ^= 1
            table.write_bytes(data)
    before = hashed(root)
    found = verify(root)
    assert found.exit_code == 4
    assert found.counts.rows == 200, "those of the two that are sound"
    by_segment = {finding.place.segment: finding for finding in found.findings}
    assert by_segment.keys() == {"w.10000", "w.20000", "w.30000"}
    assert "checksum mismatch" in by_segment["w.10000"].why
    assert "lost its CURRENT" in by_segment["w.20000"].why
    assert "--set-aside w" in by_segment["w.30000"].remedy
    assert hashed(root) == before


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "why"),
    [
        ("signal", "SIGBUS"),
        ("abort", "SIGABRT (mdb.c:1: Assertion 'page' failed)"),
        ("exit", "exit code 7"),
        ("hang", "the process sent no message for 3 s"),
    ],
)
def test_the_death_of_the_child_is_a_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, why: str
) -> None:
    root = tmp_path / "0_0"
    written(root, "deadly", "other")
    monkeypatch.setenv("KSTORE_TEST_DEATH", how)
    found = verify(root, engine=DyingEngine(), patience_s=3 if how == "hang" else 100)
    assert found.exit_code == 4
    (died,) = found.findings
    assert died.what == "died"
    assert died.why.startswith("the engine died reading deadly: ")
    assert why in died.why
    assert (died.place.store, died.place.namespace) == ("deadly", "default")
    assert died.place.key == b"00999", "how far it came"
    assert found.counts.rows == 2000, "the other store was read all the same"


def test_an_error_that_nobody_thought_of_sets_no_store_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "0_0"
    written(root, "deadly")
    monkeypatch.setenv("KSTORE_TEST_DEATH", "raise")
    (failed,) = verify(root, engine=DyingEngine()).findings
    assert (failed.what, failed.severity) == ("failed", "corrupt")
    assert "nobody thought of this" in failed.why
    assert failed.remedy.startswith("verify the store again")


def test_pages_that_lmdb_would_not_survive(tmp_path: Path) -> None:
    root = tmp_path / "0_0"
    written(root, "s")
    data = root / "lmdb" / "s" / "data.mdb"
    content = bytearray(data.read_bytes())
    for page in range(4, len(content) // 4096):
        content[page * 4096 + 10 : page * 4096 + 16] = b"\xff" * 6
    data.write_bytes(content)
    found = verify(root)
    assert found.exit_code == 4
    assert any(finding.what == "file" and "page" in finding.why for finding in found.findings)


@pytest.mark.parametrize("kept", [100, 5000, 40_000])
def test_a_file_that_was_cut(tmp_path: Path, kept: int) -> None:
    root = tmp_path / "0_0"
    written(root, "s", "sound")
    os.truncate(root / "lmdb" / "s" / "data.mdb", kept)
    found = verify(root)
    assert {finding.place.store for finding in found.findings} == {"s"}
    assert found.exit_code == 4
    assert found.counts.rows == 1000


def test_pages_are_looked_at_without_lmdb(tmp_path: Path) -> None:
    written(tmp_path, "s")
    assert list(LMDBEngine().file_faults(tmp_path, "s")) == []
    assert list(LMDBEngine().file_faults(tmp_path, "other")) == []


def test_what_somebody_holds_is_locked(tmp_path: Path) -> None:
    root = tmp_path / "0_0"
    written(root, "held", "other")
    found = verify(root, engine=LockedEngine())
    assert found.exit_code == 3
    assert found.counts.rows == 1000
    locked = [finding for finding in found.findings if finding.severity == "locked"]
    assert {finding.place.store for finding in locked} == {"held"}
    assert "kstore doctor" in locked[0].remedy
    notes = [finding for finding in found.findings if finding.severity == "note"]
    assert {finding.why for finding in notes} == {"its pages change"}


def test_a_process_that_cannot_start_says_nothing_about_the_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path / "0_0", "s")
    monkeypatch.setattr(subprocesses, "_SCRIPT", "raise SystemExit('no library')")
    with pytest.raises(EngineError, match=r"did not start: exit code 1 \(no library\)"):
        verify(tmp_path / "0_0")
    monkeypatch.setattr(subprocesses, "_SCRIPT", "import time; time.sleep(60)")
    monkeypatch.setattr(subprocesses, "_START_TIMEOUT_S", 0.1)
    with pytest.raises(EngineError, match=r"it was not ready after 0\.1 s"):
        verify(tmp_path / "0_0")
