"""What is sound is found to be so, is read whole, and is not changed."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from kstore_core import open_state, stores
from kstore_core.errors import SpecError, StateError, UnsupportedError
from kstore_core.maintenance.verify import Progress, verify
from kstore_core.testing.kinds import KINDS
from tests.maintenance.verify.stores import hashed, spec_of, write
from tests.support.golden import GOLDEN, unpack
from tests.support.places import DATA

PERSISTENT = pytest.mark.parametrize("engine", ["lmdb", "rocksdb"])


@PERSISTENT
@pytest.mark.parametrize("seed", [1, 2])
def test_every_kind_of_store_and_its_changelog(tmp_path: Path, engine: str, seed: int) -> None:
    root, logs = tmp_path / "app" / "0_0", tmp_path / "logs"
    write(root, engine, seed=seed, changelog=logs)
    before = hashed(tmp_path)
    told: list[Progress] = []
    found = verify(root, changelog=logs, compare=True, progress=told.append)
    assert (found.findings, found.exit_code) == ([], 0)
    assert hashed(tmp_path) == before
    assert found.counts.rows > 500
    assert found.counts.versions > 100
    assert found.counts.compared > 300
    assert found.counts.log_records > 1000
    assert [one.done for one in told] == sorted(one.done for one in told)
    assert told[-1].rows == found.counts.rows


@pytest.mark.parametrize("name", ["lmdb-1", "lmdb-2", "rocksdb-1", "rocksdb-2"])
def test_directories_of_earlier_versions_in_the_middle_of_upgrades(
    tmp_path: Path, name: str
) -> None:
    with tarfile.open(DATA / f"{name}.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    before = hashed(tmp_path)
    found = verify(tmp_path / name, engine=name.partition("-")[0])
    assert {finding.severity for finding in found.findings} == {"note"}
    assert all("kstore upgrade" in finding.why for finding in found.findings)
    assert found.exit_code == 0
    assert hashed(tmp_path) == before


SPECS = {
    "kv_plain": stores.key_value("kv_plain"),
    "versioned": stores.versioned_key_value("versioned", 60_000, 10_000),
    "kv_headers": None,
    "kv_half_migrated_timestamped_to_headers": None,
    "window_half_migrated_timestamped_to_headers": None,
    "session_headers": None,
}


@pytest.mark.parametrize("name", SPECS)
def test_directories_of_kafka_streams(tmp_path: Path, name: str) -> None:
    root = unpack(name, tmp_path)
    before = hashed(root)
    found = verify(root, name if SPECS[name] else None, spec=SPECS[name])
    assert [f for f in found.findings if f.severity != "note"] == []
    assert found.counts.rows > 90
    assert (found.counts.versions > 90) == (name == "versioned")
    assert hashed(root) == before


def test_what_cannot_be_seen_is_said(tmp_path: Path) -> None:
    found = verify(unpack("kv_plain", tmp_path))
    (note,) = found.findings
    assert note.severity == "note"
    assert "may be key-value or versioned" in note.why
    assert "--shape" in note.why


@PERSISTENT
def test_beside_a_writer(tmp_path: Path, engine: str) -> None:
    kind = KINDS[2]
    with open_state(tmp_path / "0_0", engine=engine) as state:
        store = state.open(spec_of(kind, "s"))
        store.put(b"k", kind.value(kind.record(b"v", 1)))
        state.commit()
        found = verify(tmp_path / "0_0")
        assert (found.exit_code, found.counts.rows) == (0, 1)


def test_refusals(tmp_path: Path) -> None:
    root = tmp_path / "0_0"
    with open_state(root, engine="lmdb") as state:
        state.open(stores.key_value("s")).put(b"k", b"v")
    with pytest.raises(StateError, match="no store 'other'; it has: s"):
        verify(root, "other")
    with pytest.raises(StateError, match="no state directory"):
        verify(tmp_path / "nowhere", engine="lmdb")
    with pytest.raises(StateError, match="no directory"):
        verify(root, changelog=tmp_path / "nowhere")
    with pytest.raises(SpecError, match="without the name of its store"):
        verify(root, spec=stores.key_value("s"))
    with pytest.raises(SpecError, match="no directory of changelogs"):
        verify(root, compare=True)
    with pytest.raises(UnsupportedError, match="in a child process"):
        verify(tmp_path, engine="memory")
    with pytest.raises(SpecError, match="no engine was passed"):
        verify(tmp_path)


def test_every_golden_directory_is_looked_at() -> None:
    there = {path.name.removesuffix(".tar.gz") for path in (GOLDEN / "dirs").glob("*.tar.gz")}
    assert SPECS.keys() <= there
