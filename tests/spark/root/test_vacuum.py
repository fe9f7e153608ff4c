"""vacuum: what nobody refers to goes, after the grace time; what somebody refers to stays."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from kstore_core.errors import StateError
from kstore_core.spark import vacuum, verify_root
from kstore_core.spark.root.manifest import Manifest, Shard
from kstore_core.spark.root.root import Root
from kstore_core.spark.root.storage.base import is_scratch, scratch_name
from tests.spark.root.manifests import SPEC
from tests.spark.support.faults import FaultyStorage, Killed, files_below, referred
from tests.spark.support.interpreters import run_killed
from tests.spark.support.object_store import Bucket

HOUR_S = 3600


def published(home: Root, source: Path, version: int, kept: tuple[Shard, ...] = ()) -> Manifest:
    """A version of two shards: one uploaded, the other as it was."""
    job = f"job{version}"
    home.begin(job)
    place = f"attempts/{job}/0-{version}/0_0"
    shard = Shard(0, place, home.upload(source, place))
    manifest = Manifest(
        version,
        version,
        job,
        "append",
        "rocksdb",
        2,
        SPEC.describe(),
        (shard, *(kept or (Shard(1),))),
    )
    home.close(job)
    home.publish(manifest)
    return manifest


@pytest.fixture
def source(tmp_path: Path) -> Path:
    source = tmp_path / "source"
    source.mkdir()
    (source / "a.sst").write_bytes(b"a" * 10)
    return source


@pytest.fixture
def aged(root: Path, source: Path) -> Path:
    """Three versions, a job that failed, another that runs; all but the last two hours old.

    Versions 2 and 3 have a shard that the job of version 1 wrote.
    """
    home = Root.at(root)
    first = published(home, source, 1)
    other = Shard(1, "attempts/job1/1-1/0_1", _more(home, source))
    for version in (2, 3):
        published(home, source, version, (other,))
    home.begin("failed")
    home.upload(source, "attempts/failed/0-9/0_0")
    old = time.time() - 2 * HOUR_S
    for file in root.rglob("*"):
        if file.is_file() and file.name != "3.json":
            os.utime(file, (old, old))
    home.begin("running")
    home.upload(source, "attempts/running/0-9/0_0")
    assert first.version == 1
    return root


def _more(home: Root, source: Path) -> tuple[Any, ...]:
    home.begin("job1")
    files = home.upload(source, "attempts/job1/1-1/0_1")
    home.close("job1")
    return files


def test_only_what_nobody_refers_to_goes(aged: Path) -> None:
    before = files_below(aged)
    found = vacuum(aged, grace_s=HOUR_S)
    assert found.versions == ()
    assert found.files == ("attempts/failed/begun", "attempts/failed/0-9/0_0/a.sst")
    assert found.bytes == 10
    assert files_below(aged) == before - {*found.files}
    assert not (aged / "attempts" / "failed").exists()
    assert vacuum(aged, grace_s=HOUR_S) == type(found)((), (), 0)


def test_unfinished_manifests_go_after_the_grace_time(aged: Path) -> None:
    """A writer that is killed while it writes a manifest leaves its file under another name."""
    old, young = (aged / "_kstore" / scratch_name("4.json") for _ in range(2))
    for file in (old, young):
        file.write_bytes(b"{")
    then = time.time() - 2 * HOUR_S
    os.utime(old, (then, then))
    notes = [f.why for f in verify_root(aged).findings if "incomplete manifest" in f.why]
    assert len(notes) == 2
    assert vacuum(aged, grace_s=HOUR_S).files[-1] == f"_kstore/{old.name}"
    assert (old.exists(), young.exists()) == (False, True)
    assert vacuum(aged, grace_s=0, keep_versions=9).files[-1] == f"_kstore/{young.name}"
    assert Root.at(aged).versions() == [1, 2, 3]


def test_a_writer_that_is_killed_leaves_what_a_vacuum_finds(root: Path) -> None:
    program = (
        "import os\n"
        "from kstore_core.spark.root.storage.local import LocalFiles\n"
        f"from pathlib import Path; files = LocalFiles(Path({str(root)!r}))\n"
        "os.link = lambda *ignored: os._exit(9)\n"
        "files.put_new('_kstore/1.json', b'{')\n"
    )
    assert run_killed(program) == 9
    (left,) = (root / "_kstore").iterdir()
    assert is_scratch(left.name)
    time.sleep(0.1)
    assert vacuum(root, grace_s=0).files == (f"_kstore/{left.name}",)
    assert Root.at(root).versions() == []


def test_a_dry_run_says_what_a_vacuum_does(aged: Path) -> None:
    before = files_below(aged)
    found = vacuum(aged, grace_s=HOUR_S, keep_versions=1, dry_run=True)
    assert files_below(aged) == before
    assert vacuum(aged, grace_s=HOUR_S, keep_versions=1) == found


def test_old_versions_go_once_they_were_followed_long_ago(aged: Path) -> None:
    """Version 2 is not among those to keep, but was the newest until a moment ago."""
    home = Root.at(aged)
    found = vacuum(aged, grace_s=HOUR_S, keep_versions=1)
    assert found.versions == (1,)
    assert home.versions() == [2, 3]
    assert "attempts/job1/0-1/0_0/a.sst" in found.files
    assert (aged / "attempts/job1/1-1/0_1/a.sst").exists()  # of versions 2 and 3
    with pytest.raises(StateError, match="no version 1; read a version from 2 to 3"):
        home.load(1)


def test_without_a_grace_time_nothing_else_stays(aged: Path) -> None:
    found = vacuum(aged, grace_s=0, keep_versions=1)
    assert found.versions == (1, 2)
    assert files_below(aged) == referred(Root.at(aged))


@pytest.mark.parametrize("keep", [2, 3, 9])
def test_as_many_versions_stay_as_are_asked_for(aged: Path, keep: int) -> None:
    found = vacuum(aged, grace_s=0, keep_versions=keep)
    assert found.versions == tuple(range(1, 4))[:-keep]


def test_beside_files_that_stay_nothing_is_touched(aged: Path) -> None:
    """An engine that reads a shard in place keeps its table of readers there."""
    lock = aged / "attempts/job2/0-2/0_0/lock.mdb"
    lock.touch()
    os.utime(lock, (0, 0))
    vacuum(aged, grace_s=0)
    assert lock.exists()


@pytest.mark.spoils_root
def test_a_manifest_that_cannot_be_read_stops_it(aged: Path) -> None:
    before = files_below(aged)
    (aged / "_kstore" / "2.json").write_text("{}")
    with pytest.raises(StateError, match=r"2\.json is not a valid manifest"):
        vacuum(aged, grace_s=0)
    assert files_below(aged) == before


def test_a_vacuum_that_was_killed_leaves_readable_versions(aged: Path) -> None:
    """Old versions lose their manifests before their files."""
    storage = FaultyStorage(Root.at(aged).storage)  # type: ignore[arg-type]
    storage.how = "dies after"
    calls = 0
    while True:
        storage.at, storage.dead, storage.calls = calls, False, []
        try:
            _vacuum(Root(storage))  # type: ignore[arg-type]
        except Killed:
            assert files_below(aged) >= referred(Root.at(aged))
            calls += 1
            continue
        break
    assert calls > 5
    assert files_below(aged) == referred(Root.at(aged))


def _vacuum(home: Root) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Root, "at", classmethod(lambda *_: home))
        vacuum("anywhere", grace_s=0, keep_versions=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"grace_s": -1}, "grace_s=-1"),
        ({"grace_s": float("nan")}, "grace_s=nan"),
        ({"grace_s": "7 days"}, "grace_s='7 days' must be a number of seconds"),
        ({"grace_s": None}, "grace_s=None"),
        ({"keep_versions": 0}, "keep_versions=0 must be an int of 1 or more"),
        ({"keep_versions": True}, "keep_versions=True"),
    ],
)
def test_arguments_that_do_not_fit_are_told(root: Path, options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        vacuum(root, **options)


def test_an_empty_root_has_nothing_to_remove(root: Path) -> None:
    assert vacuum(root).files == ()


def test_what_a_first_job_left_goes(root: Path, source: Path) -> None:
    home = Root.at(root)
    home.begin("failed")
    home.upload(source, "attempts/failed/0-9/0_0")
    assert len(vacuum(root, grace_s=0).files) == 2


def test_a_directory_of_somebody_else_is_left_alone(root: Path) -> None:
    (root / "attempts" / "mine").mkdir(parents=True)
    (root / "attempts" / "mine" / "thesis.txt").touch()
    (root / "notes.txt").touch()
    with pytest.raises(StateError, match=r"has no partitioned store: it contains 'notes\.txt'"):
        vacuum(root, grace_s=0)
    assert (root / "attempts" / "mine" / "thesis.txt").exists()


def test_objects_go_one_by_one(bucket: Bucket, source: Path, tmp_path: Path) -> None:
    """A version may refer to one file of an old attempt; the others beside it go."""
    home = bucket.root()
    (source / "CURRENT").write_bytes(b"1")
    first = published(home, source, 1)
    stamps = home.fetch(first.shards[0], tmp_path / "copy")
    (tmp_path / "copy/CURRENT").write_bytes(b"2")
    home.begin("job2")
    place = "attempts/job2/0-2/0_0"
    shard = Shard(0, place, home.upload(tmp_path / "copy", place, first.shards[0], stamps))
    home.close("job2")
    home.publish(Manifest(2, 2, "job2", "append", "rocksdb", 2, SPEC.describe(), (shard, Shard(1))))
    time.sleep(1.1)  # S3 tells seconds
    found = vacuum(bucket.address(), grace_s=0, keep_versions=1, storage_options=bucket.options)
    assert found.versions == (1,)
    assert found.files == ("attempts/job1/0-1/0_0/CURRENT",)
    assert {name.removeprefix("stores/rates/") for name in bucket.files()} == referred(home)
    with home.local_shard(shard) as path:
        assert (path / "CURRENT").read_bytes() == b"2"
        assert (path / "a.sst").read_bytes() == b"a" * 10
