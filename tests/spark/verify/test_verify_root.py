"""A root is held to its manifests: each file, each way to damage it, and what is no damage."""

from __future__ import annotations

import errno
import itertools
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import kstore_core.maintenance.doctor
import kstore_core.maintenance.verify
import kstore_core.spark.verify.files
from kstore_core import open_state, stores
from kstore_core.errors import (
    CorruptionError,
    InconsistentStateError,
    KStoreError,
    StateError,
    StorageUnavailableError,
    UnsupportedError,
)
from kstore_core.maintenance.verify import Verified
from kstore_core.spark import vacuum, verify_root
from kstore_core.spark.root.root import Root
from kstore_core.spark.root.storage.local import LocalFiles
from kstore_core.spark.shards.published import ShardReader
from kstore_core.spark.verify.files import CheckedFiles, check_files
from kstore_core.spark.verify.verify_root import examine_root
from kstore_core.testing.kinds import KINDS, Kind
from tests.maintenance.verify.stores import fill as fill_store
from tests.maintenance.verify.stores import spec_of
from tests.spark.support.by_hand import publish, rows_of
from tests.spark.support.object_store import Bucket
from tests.spark.support.plans import plan_store
from tests.spark.support.spoiling import SPOILS, flip, linked_to, places_of, spoiled

SPEC = stores.timestamped_key_value("s")
ENGINES = ("rocksdb", "lmdb")
HAS_BYTES = ("flipped", "cut", "emptied")


def fill(number: int) -> Callable[[Any, int], None]:
    def put(store: Any, shard: int) -> None:
        for key in range(20):
            store.put(b"%d-%d" % (shard, key), b"%d" % number, timestamp=number)

    return put


@pytest.fixture(params=ENGINES)
def home(root: Path, request: pytest.FixtureRequest) -> Root:
    """Two versions of a store in two shards; the second one changed both."""
    for number in (1, 2):
        publish(root, SPEC, fill(number), engine=request.param)
    return Root.at(root)


@pytest.fixture
def without_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out what looks into shards, in a child process, where files are what counts."""
    monkeypatch.setattr(kstore_core.maintenance.verify, "verify", lambda *_, **__: Verified())
    monkeypatch.setattr(kstore_core.maintenance.doctor, "examine", lambda *_, **__: Verified())
    monkeypatch.setattr(kstore_core.spark.verify.files, "_BETWEEN_READS_S", 0.0)


def said(found: Verified | CheckedFiles) -> list[str]:
    return [finding.why for finding in found.findings if finding.severity != "note"]


def verified(home: Root) -> tuple[int, str]:
    """The exit code, and what is said of files."""
    found = verify_root(home.name)
    return found.exit_code, "\n".join(said(found))


# ------------------------------------------------------------ every file, every damage


@pytest.mark.usefixtures("without_rows")
@pytest.mark.parametrize("name", SPOILS)
def test_a_damaged_file_is_named(home: Root, name: str) -> None:
    tried = 0
    for place in places_of(home):
        victim = home.path / place
        if name in HAS_BYTES and not victim.stat().st_size:
            continue
        with spoiled(victim, SPOILS[name]):
            code, text = verified(home)
            assert code == 4, place
            assert text.startswith(place)
            assert len(text.splitlines()) == 1
            tried += 1
    assert tried >= 8
    assert verified(home) == (0, "")


@pytest.mark.slow
@pytest.mark.usefixtures("without_rows")
def test_any_bit_that_flips_is_found(home: Root) -> None:
    for place in places_of(home):
        size = (home.path / place).stat().st_size
        for at in range(0, size, max(1, size // 5)):
            with spoiled(home.path / place, lambda path, at=at: flip(path, at)):  # type: ignore[misc]
                assert verified(home)[0] == 4


@pytest.mark.usefixtures("without_rows")
def test_swapped_files_are_named_with_what_they_are(home: Root) -> None:
    newest = home.load()
    one, other = (
        {file.path: shard.place_of(file) for file in shard.files} for shard in newest.shards
    )
    tried = 0
    for path in one.keys() & other.keys():
        first, second = home.path / one[path], home.path / other[path]
        if first.read_bytes() == second.read_bytes():
            continue
        swap(first, second)
        code, text = verified(home)
        swap(first, second)
        assert code == 4
        assert one[path] in text
        assert other[path] in text
        assert f"The file has the content of {one[path]}" in text or first.stat().st_size == 0
        tried += 1
    assert tried
    swap(home.path / str(newest.shards[0].path), home.path / str(newest.shards[1].path))
    code, text = verified(home)
    assert (code, "The file has the content of" in text) == (4, True)
    swap(home.path / str(newest.shards[0].path), home.path / str(newest.shards[1].path))


def swap(one: Path, other: Path) -> None:
    aside = one.with_name("aside")
    one.rename(aside)
    other.rename(one)
    aside.rename(other)


@pytest.mark.usefixtures("without_rows")
@pytest.mark.parametrize("depth", range(2, 8))
@pytest.mark.parametrize("where", ["inside", "outside"])
def test_a_link_anywhere_on_the_way_is_refused(
    home: Root, tmp_path: Path, depth: int, where: str
) -> None:
    """By verify and doctor, which name the files behind it, and by all that read."""
    newest = home.load()
    shard = newest.shards[0]
    reader = ShardReader(home, SPEC, newest.engine)
    ways = {"/".join(place.split("/")[:depth]) for place in map(shard.place_of, shard.files)}
    for way in sorted(ways)[:3]:
        target = {"inside": home.path / "attempts" / "elsewhere", "outside": tmp_path / "out"}
        with spoiled(home.path / way, linked_to(target[where])):
            found = verify_root(home.name)
            behind = [name for name in places_of(home) if f"{name}/".startswith(f"{way}/")]
            assert found.exit_code == examine_root(home.name).exit_code == 4
            assert behind
            assert all(any(name in why for why in said(found)) for name in behind)
            with pytest.raises(CorruptionError, match=f"{way} is a symbolic link to"):
                home.fetch(shard, tmp_path / "copy")
            shutil.rmtree(tmp_path / "copy")
            with pytest.raises(CorruptionError, match="is a symbolic link"), reader.open(shard):
                pass
            with pytest.raises(CorruptionError, match="is a symbolic link"):
                rows_of(plan_store(home, newest, SPEC))
        (shutil.rmtree if target[where].is_dir() else os.unlink)(target[where])


def test_a_file_that_is_named_twice_is_read_once(home: Root, monkeypatch: Any) -> None:
    read: list[str] = []
    digest = LocalFiles.digest

    def counting(files: LocalFiles, name: str) -> tuple[int, str]:
        read.append(name)
        return digest(files, name)

    monkeypatch.setattr(LocalFiles, "digest", counting)
    assert said(check_files(home)) == []
    assert len({(home.path / name).stat().st_ino for name in read}) == len(read)
    assert check_files(home, contents=False).files == len(places_of(home)) >= len(read)


# ------------------------------------------------------------ what is sound


@pytest.mark.usefixtures("one_process")
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", [kind for kind in KINDS if not kind.layers], ids=str)
def test_every_kind_of_store_is_sound(root: Path, kind: Kind, engine: str) -> None:
    """After a first version, an append, a read in place and a vacuum."""
    spec = spec_of(kind, "s")
    for seed in range(2):

        def put(store: Any, shard: int, seed: int = seed) -> None:
            fill_store(store, kind, seed)

        publish(root, spec, put, engine=engine, partitions=1)
        assert said(check_files(Root.at(root))) == []
    home = Root.at(root)
    with ShardReader(home, spec, engine).open(home.load().shards[0]):
        pass
    vacuum(root, grace_s=0, keep_versions=1)
    found = verify_root(root)
    assert (found.exit_code, found.findings) == (0, [])
    assert found.counts.files == len(places_of(home))
    assert found.counts.rows > 0


def test_what_failed_jobs_leave_is_a_note(home: Root, tmp_path: Path) -> None:
    """With the mark of a job that runs, and beside another root's file and a scratch file."""
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "data").write_bytes(b"12345")
    home.begin("running")
    home.upload(tmp_path / "source", "attempts/running/0-0/0_0")
    (home.path / "README").write_text("mine")
    (home.path / "_kstore" / ".3.json-1.tmp").write_text("{")
    held = check_files(home)
    assert said(held) == []
    notes = "\n".join(finding.why for finding in held.findings)
    assert "attempts/running has 2 files that belong to no version, 5 bytes" in notes
    assert "README belongs to no version" in notes
    assert ".3.json-1.tmp is not a manifest" in notes
    home.discard("running")


@pytest.mark.spoils_root
def test_a_file_beside_those_of_a_version_is_told(home: Root) -> None:
    """An engine may take it for its own, and a vacuum leaves it there."""
    directory = home.path / str(home.load().shards[1].path)
    (directory / "LOG").touch()
    (directory / "lock.mdb").touch()
    assert said(check_files(home)) == []
    (directory / "000099.log").touch()
    (finding,) = (one for one in check_files(home).findings if one.severity == "finding")
    assert finding.place.shard == 1
    assert "0_1/000099.log is named by no manifest" in finding.why
    (directory / "000099.log").unlink()
    (directory / "link").symlink_to("/etc")
    held = check_files(home)
    assert [one.severity for one in held.findings if one.severity != "note"] == ["corrupt"]
    assert held.damaged == {1}
    with pytest.raises(CorruptionError, match="link is a symbolic link to /etc"):
        home.local_shard(home.load().shards[1]).__enter__()


# ------------------------------------------------------------ what goes on meanwhile


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_a_version_that_goes_while_it_is_read_is_no_damage(
    root: Path, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whenever another one is published and the old ones are removed: at each call, one by one."""

    plain = {name: getattr(LocalFiles, name) for name in ("names", "files", "read", "digest")}
    at, calls = 0, itertools.count()

    def meddle() -> None:
        if next(calls) == at:
            with pytest.MonkeyPatch.context() as undone:
                for name, call in plain.items():
                    undone.setattr(LocalFiles, name, call)
                publish(root, SPEC, fill(2), engine=engine)
                vacuum(root, grace_s=0, keep_versions=1)

    def look(path: Path, *_: Any, **__: Any) -> Verified:
        meddle()
        with open_state(path, engine=engine, read_only=True) as state:
            meddle()
            assert len([*state.open(SPEC).all()]) >= 20
        return Verified()

    monkeypatch.setattr(kstore_core.maintenance.verify, "verify", look)
    while True:
        shutil.rmtree(root, ignore_errors=True)
        publish(root, SPEC, fill(1), engine=engine)
        calls = itertools.count()
        with monkeypatch.context() as patch:
            for name, call in plain.items():

                def called(*args: Any, call: Any = call) -> Any:
                    meddle()
                    return call(*args)

                patch.setattr(LocalFiles, name, called)
            found = verify_root(root)
        assert (found.exit_code, said(found)) == (0, []), at
        if next(calls) <= at:
            break
        at += 1
    assert at > 12


@pytest.mark.usefixtures("without_rows")
def test_a_root_whose_versions_keep_going_is_an_error(
    home: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look(*_: Any, **__: Any) -> Verified:
        publish(home, SPEC, fill(3))
        vacuum(home.path, grace_s=0, keep_versions=1)
        raise CorruptionError("a file is missing")

    if home.load().engine == "rocksdb":
        monkeypatch.setattr(kstore_core.maintenance.verify, "verify", look)
        with pytest.raises(StateError, match="could not be verified in 10 attempts"):
            verify_root(home.path)


# ------------------------------------------------------------ manifests


@pytest.mark.spoils_root
@pytest.mark.usefixtures("without_rows")
@pytest.mark.parametrize("name", SPOILS)
@pytest.mark.parametrize("version", [1, 2])
def test_a_damaged_manifest_is_named(home: Root, name: str, version: int) -> None:
    """And the other version is held to its own."""
    victim = home.path / "_kstore" / f"{version}.json"
    if name == "removed":
        victim.unlink()
        assert verified(home)[0] == 0
        return
    spoil = {"flipped": lambda path: flip(path, 0), "cut": halve, "grown": double}.get(name)
    with spoiled(victim, spoil or SPOILS[name]):
        code, text = verified(home)
        assert code == examine_root(home.path).exit_code == 4
        assert f"_kstore/{version}.json" in text
        with pytest.raises(InconsistentStateError, match=f"{version}.json"):
            home.load(version)
        flip(home.path / next(iter(home.load(3 - version).places())))
        assert len(verified(home)[1].splitlines()) >= 2


def halve(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def double(path: Path) -> None:
    path.write_bytes(path.read_bytes() * 2)


@pytest.mark.slow
@pytest.mark.usefixtures("without_rows")
def test_bytes_of_a_manifest_that_flip(home: Root) -> None:
    """What is read then is refused, found, or the same but for what says nothing of files."""
    victim = home.path / "_kstore" / "2.json"
    size = victim.stat().st_size
    named = json.loads(victim.read_text())["shards"]
    for at in range(0, size, max(1, size // 150)):
        with spoiled(victim, lambda path, at=at: flip(path, at)):  # type: ignore[misc]
            try:
                code = verify_root(home.path).exit_code
            except KStoreError:
                continue
            if code == 0:
                now = json.loads(victim.read_text())["shards"]
                for before, after in zip(named, now, strict=True):
                    assert before["files"] == after["files"]
                    assert before["path"] == after["path"]


@pytest.mark.spoils_root
@pytest.mark.usefixtures("without_rows")
def test_a_manifest_of_a_newer_kstore_is_no_damage(home: Root) -> None:
    place = home.path / "_kstore" / "2.json"
    place.write_text(json.dumps({**json.loads(place.read_text()), "format": 99}))
    found = verify_root(home.path)
    assert found.exit_code == 1
    assert "layout 99" in said(found)[0]
    assert {finding.what for finding in found.findings} == {"manifest", "note"}


def test_no_version_is_an_error(root: Path) -> None:
    root.mkdir()
    with pytest.raises(StateError, match="has no store"):
        verify_root(root)


@pytest.mark.spoils_root
@pytest.mark.parametrize("name", ["_kstore", "attempts"])
def test_a_directory_of_the_root_that_is_a_link(home: Root, tmp_path: Path, name: str) -> None:
    (home.path / name).rename(tmp_path / "elsewhere")
    (home.path / name).symlink_to(tmp_path / "elsewhere")
    for use in (verify_root, examine_root):
        with pytest.raises(CorruptionError, match=f"{name} is a symbolic link"):
            use(home.path)
    with pytest.raises(CorruptionError, match=f"{name} is a symbolic link"):
        publish(home, SPEC, fill(3))


# ------------------------------------------------------------ what cannot be read


@pytest.mark.usefixtures("without_rows")
@pytest.mark.parametrize(("number", "code"), [(errno.EACCES, 1), (errno.EIO, 4)])
def test_a_file_that_cannot_be_read(
    home: Root, monkeypatch: pytest.MonkeyPatch, number: int, code: int
) -> None:
    victim = places_of(home)[0]
    plain = os.open

    def refusing(path: Any, *args: Any, **kwargs: Any) -> int:
        if str(path).endswith(victim):
            raise OSError(number, os.strerror(number), str(path))
        return plain(path, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refusing)
        found = verify_root(home.path)
    assert found.exit_code == code
    (finding,) = (one for one in found.findings if one.severity != "note")
    assert finding.what == {1: "forbidden", 4: "unreadable"}[code]
    assert victim in finding.why


# ------------------------------------------------------------ object stores


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:datetime.datetime.utcnow")
def test_objects_are_held_to_their_manifests(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of an append they lie in the attempts of two jobs."""
    home = bucket.root()
    for number in (1, 2):
        publish(home, SPEC, fill(number), partitions=1)

    def check() -> Verified:
        return verify_root(bucket.address(), storage_options=bucket.options)

    found = check()
    assert (found.exit_code, said(found)) == (0, [])
    assert found.counts.rows == 20
    vacuum(bucket.address(), grace_s=0, keep_versions=1, storage_options=bucket.options)
    assert check().exit_code == 0
    with pytest.raises(UnsupportedError, match="is verified in a copy"):
        verify_root(bucket.address(), storage_options=bucket.options, changelog="/tmp")
    monkeypatch.setattr(kstore_core.maintenance.verify, "verify", lambda *_, **__: Verified())
    files = home.storage
    for place in places_of(home)[:4]:
        content = files.read(place)
        for spoil in (content + b"x", content[:-1] + b"\xff"):
            files.delete([place])
            files.put_new(place, spoil)
            found = check()
            assert found.exit_code == 4
            assert said(found)[0].startswith(place)
        files.delete([place])
        assert f"{place}, of version 2, is missing" in said(check())[0]
        files.put_new(place, content)
    assert check().exit_code == 0


def test_a_store_that_does_not_answer_is_no_damage(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = bucket.root()
    publish(home, SPEC, fill(1))

    def silent(*_: Any) -> Any:
        raise StorageUnavailableError("no answer")

    monkeypatch.setattr(type(home.storage), "digest", silent)
    with pytest.raises(StorageUnavailableError, match="no answer"):
        verify_root(bucket.address(), storage_options=bucket.options)
