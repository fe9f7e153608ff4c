"""Publishing a version once, and files that are checked on their way."""

from __future__ import annotations

import dataclasses
import errno
import os
import pickle
from pathlib import Path

import pytest

from kstore_core.errors import (
    CommitConflictError,
    CorruptionError,
    SpecError,
    StateError,
    StorageFullError,
    StorageUnavailableError,
    UnsupportedError,
)
from kstore_core.spark.root.manifest import Shard
from kstore_core.spark.root.root import Root
from kstore_core.spark.root.storage.local import LocalFiles
from tests.spark.root.manifests import manifest

pytestmark = pytest.mark.spoils_root  # its manifests name files that nobody wrote


def test_a_root_is_a_path_or_a_file_address(tmp_path: Path) -> None:
    there = Root.at(tmp_path / "a b")
    assert there.path == tmp_path / "a b"
    assert there.name == str(there) == str(tmp_path / "a b")
    assert Root.at(str(tmp_path / "a b")) == there
    assert Root.at((tmp_path / "a b").as_uri()) == there
    assert Root.at(f"file:{tmp_path}/a b") == there
    assert Root.at(f"file://localhost{tmp_path}/a b") == there
    assert Root.at(f"file://{tmp_path}/a#b?c").path == tmp_path / "a#b?c"
    assert Root.at("relative").path.is_absolute()


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("webhdfs://host/x", "webhdfs: is not supported.*no client for it. Pass hdfs://namenode"),
        ("webdav://host/x", "webdav: is not supported.*no client for it. Mount the directory"),
        ("wasbs://c@a/x", "wasbs: is not supported.*abfss://container@account"),
        ("file:////host/x", "another machine"),
        ("file://host/x", "another machine; mount the directory"),
        (
            "memory://x",
            "memory: is not supported; write the store to a path, or to an address of",
        ),
    ],
)
def test_other_schemes_say_what_to_do(where: str, message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        Root.at(where)


def test_a_directory_has_no_storage_options(tmp_path: Path) -> None:
    assert Root.at(tmp_path, {}) == Root.at(tmp_path)
    with pytest.raises(SpecError, match=r"the storage options \['key'\] are for object stores"):
        Root.at(tmp_path, {"key": "x"})


@pytest.mark.parametrize("where", ["", "\0", "/data/\0"])
def test_what_no_path_has_is_refused(where: str) -> None:
    with pytest.raises(ValueError, match=r"the root .*(empty string|contains a NUL)"):
        Root.at(where)


def test_a_root_that_cannot_be_used_says_why(root: Path) -> None:
    root.symlink_to(root)
    too_long = root.with_name("x" * 300)
    for where, message in ((root, "Too many levels"), (too_long, "name too long")):
        home = Root.at(where)
        for use in (home.versions, home.check_unused, lambda home=home: home.begin("job")):
            with pytest.raises(StorageUnavailableError, match=f"cannot be used .*{message}"):
                use()


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES, errno.EIO])
def test_a_disk_that_takes_nothing_says_why(
    root: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    home = Root.at(root)
    home.publish(manifest(1))

    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(StorageUnavailableError, match=os.strerror(number)):
        home.begin("job")
    with pytest.raises(
        StorageUnavailableError, match="Correct the cause on the driver and every worker"
    ):
        home.publish(manifest(2))
    assert home.versions() == [1]


def test_a_root_travels(tmp_path: Path) -> None:
    assert pickle.loads(pickle.dumps(Root.at(tmp_path))) == Root.at(tmp_path)


def test_an_empty_path_is_no_root() -> None:
    with pytest.raises(ValueError, match="is an empty string"):
        Root.at("")


def test_the_newest_version_is_the_greatest_number(root: Path) -> None:
    home = Root.at(root)
    assert home.versions() == []
    assert home.newest() is None
    for version in (1, 2, 10):
        home.publish(manifest(version))
    assert home.versions() == [1, 2, 10]
    newest = home.newest()
    assert newest is not None
    assert newest.version == 10
    assert home.load(2).version == 2
    with pytest.raises(StateError, match="no version 3; read a version from 1 to 10"):
        home.load(3)


def test_a_root_without_manifest_is_named(root: Path) -> None:
    with pytest.raises(StateError, match="has no store: there is no manifest"):
        Root.at(root).load()


def test_a_version_is_published_once(root: Path) -> None:
    home = Root.at(root)
    home.publish(manifest(1))
    with pytest.raises(CommitConflictError, match=r"1\.json was published by another writer"):
        home.publish(dataclasses.replace(manifest(1), job="other"))
    assert home.load() == manifest(1)
    assert [path.name for path in (root / "_kstore").iterdir()] == ["1.json"]


def test_a_version_is_published_once_without_hard_links_too(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(*_: object) -> None:
        raise PermissionError("Operation not permitted")

    monkeypatch.setattr("os.link", no_links)
    test_a_version_is_published_once(root)


def test_an_unused_directory_has_nothing_of_others(root: Path) -> None:
    home = Root.at(root)
    home.check_unused()
    home.begin("job")
    home.check_unused()
    (root / "rocksdb").mkdir()
    with pytest.raises(StateError, match=r"not empty and has no partitioned store.*'rocksdb'"):
        home.check_unused()


def test_a_file_is_no_root(root: Path) -> None:
    root.touch()
    with pytest.raises(StateError, match="is a file"):
        Root.at(root).check_unused()


def test_a_link_that_leads_nowhere_is_no_root(root: Path, tmp_path: Path) -> None:
    root.symlink_to(tmp_path / "not-mounted")
    with pytest.raises(StateError, match="a disk that is not mounted"):
        Root.at(root).begin("job")


@pytest.fixture
def uploaded(root: Path, tmp_path: Path) -> tuple[Root, Shard]:
    """A shard of three files in two directories."""
    source = tmp_path / "source"
    (source / "rocksdb" / "s").mkdir(parents=True)
    (source / "rocksdb" / "s" / "1.sst").write_bytes(b"x" * 3_000_000)
    (source / "rocksdb" / "s" / "CURRENT").write_bytes(b"")
    (source / "rocksdb" / "s" / "LOCK").write_bytes(b"")
    (source / "a").write_bytes(b"a")
    home = Root.at(root)
    home.begin("job")
    place = f"{home.attempts('job')}/0-1/0_0"
    return home, Shard(0, place, home.upload(source, place))


def test_what_is_uploaded_can_be_fetched(uploaded: tuple[Root, Shard], tmp_path: Path) -> None:
    home, shard = uploaded
    assert [(file.path, file.bytes) for file in shard.files] == [
        ("a", 1),
        ("rocksdb/s/1.sst", 3_000_000),
        ("rocksdb/s/CURRENT", 0),
    ]
    assert shard.path is not None
    home.fetch(shard, tmp_path / "copy")
    assert (tmp_path / "copy/rocksdb/s/1.sst").read_bytes() == b"x" * 3_000_000
    with home.local_shard(shard) as there:
        assert there == home.path / shard.path


def test_only_what_is_never_written_to_is_linked(
    uploaded: tuple[Root, Shard], tmp_path: Path
) -> None:
    home, shard = uploaded
    home.fetch(shard, tmp_path / "copy")
    there = home.path / str(shard.path)
    for name, linked in (("rocksdb/s/1.sst", True), ("rocksdb/s/CURRENT", False), ("a", False)):
        assert (tmp_path / "copy" / name).samefile(there / name) == linked


def test_table_files_are_linked_into_the_root(uploaded: tuple[Root, Shard], tmp_path: Path) -> None:
    home, shard = uploaded
    there = home.path / str(shard.path)
    for name, linked in (("rocksdb/s/1.sst", True), ("rocksdb/s/CURRENT", False), ("a", False)):
        assert (tmp_path / "source" / name).samefile(there / name) == linked


def test_without_hard_links_an_upload_copies(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    monkeypatch.setattr(os, "link", refuse)
    source = tmp_path / "1.sst"
    source.write_bytes(b"x")
    LocalFiles(root).upload({"s/1.sst": source})
    assert not (root / "s/1.sst").samefile(source)
    assert (root / "s/1.sst").read_bytes() == b"x"


def test_what_nobody_wrote_to_is_linked_into_the_next_attempt(
    uploaded: tuple[Root, Shard], tmp_path: Path
) -> None:
    """The file that changed is a new one, even if its size and its first bytes are the same."""
    home, shard = uploaded
    copy = tmp_path / "copy"
    stamps = home.fetch(shard, copy)
    (copy / "a").write_bytes(b"b")
    (copy / "rocksdb/s/2.sst").write_bytes(b"y")
    files = home.upload(copy, "attempts/job/0-2/0_0", shard, stamps)
    again = Shard(0, "attempts/job/0-2/0_0", files)
    assert again.in_one_place
    assert {file.path: file.bytes for file in files} == {
        "a": 1,
        "rocksdb/s/1.sst": 3_000_000,
        "rocksdb/s/2.sst": 1,
        "rocksdb/s/CURRENT": 0,
    }
    old, new = home.path / str(shard.path), home.path / str(again.path)
    assert (new / "rocksdb/s/1.sst").samefile(old / "rocksdb/s/1.sst")
    assert (old / "a").read_bytes() == b"a"
    home.fetch(again, tmp_path / "other")
    assert (tmp_path / "other/a").read_bytes() == b"b"


@pytest.mark.parametrize("name", ["a", "rocksdb/s/1.sst"])
def test_a_changed_byte_is_found_on_fetching(
    uploaded: tuple[Root, Shard], tmp_path: Path, name: str
) -> None:
    home, shard = uploaded
    victim = home.path / str(shard.path) / name
    victim.write_bytes(b"b" * victim.stat().st_size)
    with pytest.raises(CorruptionError, match="differs from its manifest"):
        home.fetch(shard, tmp_path / "copy")


@pytest.mark.parametrize("content", [None, b"aa"])
def test_a_lost_or_cut_file_is_found_on_opening(
    uploaded: tuple[Root, Shard], tmp_path: Path, content: bytes | None
) -> None:
    home, shard = uploaded
    victim = home.path / str(shard.path) / "a"
    victim.unlink()
    if content is not None:
        victim.write_bytes(content)
    message = r"a (is missing|has 2 bytes, not 1 as in its manifest)"
    with pytest.raises(CorruptionError, match=message), home.local_shard(shard):
        pass
    with pytest.raises(CorruptionError, match=r"missing|differs from its manifest"):
        home.fetch(shard, tmp_path / "copy")


def test_a_discarded_job_leaves_nothing_and_takes_nothing_more(
    uploaded: tuple[Root, Shard], tmp_path: Path
) -> None:
    home, _ = uploaded
    assert home.has_begun("job")
    home.discard("job")
    assert not home.has_begun("job")
    assert list(home.path.iterdir()) == []
    with pytest.raises(FileNotFoundError, match="the job has ended"):
        home.upload(tmp_path / "source", "attempts/job/0-2/0_0")
    home.discard("job")
    assert list(home.path.iterdir()) == []


def test_discarding_leaves_other_jobs_alone(uploaded: tuple[Root, Shard]) -> None:
    home, _ = uploaded
    home.begin("other")
    home.discard("other")
    assert [path.name for path in (home.path / "attempts").iterdir()] == ["job"]


def test_only_what_the_manifest_refers_to_is_kept(
    uploaded: tuple[Root, Shard], tmp_path: Path
) -> None:
    home, shard = uploaded
    home.upload(tmp_path / "source", "attempts/job/0-2/0_0")
    home.keep_only("job", dataclasses.replace(manifest(), shards=(shard, Shard(1))))
    assert [path.name for path in (home.path / "attempts" / "job").iterdir()] == ["0-1"]


def test_a_full_disk_says_so(
    uploaded: tuple[Root, Shard], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, shard = uploaded

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        with pytest.raises(StorageFullError, match="Free some space and run the job again"):
            home.upload(tmp_path / "source", "attempts/job/0-2/0_0")
        with pytest.raises(StorageFullError, match=r"no space left for .*root/"):
            home.publish(manifest(1))
    with monkeypatch.context() as patch:
        patch.setattr("shutil.copyfile", full)
        with pytest.raises(StorageFullError, match="copy"):
            home.fetch(shard, tmp_path / "copy")
    assert home.versions() == []


def test_a_later_version_is_a_conflict_too(root: Path) -> None:
    """Else a version could be published behind the newest one, where a vacuum made room."""
    home = Root.at(root)
    for version in (1, 2, 3):
        home.publish(manifest(version))
    (root / "_kstore" / "2.json").unlink()
    with pytest.raises(CommitConflictError, match=r"3\.json was published by another writer"):
        home.publish(manifest(2))


def test_publishing_again_what_is_published_is_no_conflict(root: Path) -> None:
    """The first answer may have been lost."""
    home = Root.at(root)
    home.publish(manifest(1))
    home.publish(manifest(1))
    assert home.versions() == [1]


def test_a_storage_that_overwrites_is_refused(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = Root.at(root)

    def put(files: LocalFiles, name: str, data: bytes) -> None:
        (files.path / name).parent.mkdir(parents=True, exist_ok=True)
        (files.path / name).write_bytes(data)

    monkeypatch.setattr(LocalFiles, "put_new", put)
    with pytest.raises(UnsupportedError, match="ignores conditional requests"):
        home.begin("job")
    assert list(root.iterdir()) == []


@pytest.mark.parametrize("text", ["", "{}", "\x00"])
def test_a_manifest_that_cannot_be_read_is_named(root: Path, text: str) -> None:
    (root / "_kstore").mkdir(parents=True)
    (root / "_kstore" / "1.json").write_text(text)
    with pytest.raises(StateError, match=r"root/_kstore/1\.json is not a valid manifest"):
        Root.at(root).newest()


def test_a_directory_is_no_manifest(root: Path) -> None:
    (root / "_kstore" / "1.json").mkdir(parents=True)
    with pytest.raises(StateError, match=r"1\.json is a directory, not a regular file"):
        Root.at(root).load()


def test_bytes_are_no_manifest(root: Path) -> None:
    (root / "_kstore").mkdir(parents=True)
    (root / "_kstore" / "1.json").write_bytes(b"\xff")
    with pytest.raises(StateError, match=r"1\.json is not a valid manifest.*utf-8"):
        Root.at(root).load()


def test_a_version_of_another_number_is_no_manifest(root: Path) -> None:
    Root.at(root).publish(manifest(1))
    (root / "_kstore" / "1.json").rename(root / "_kstore" / "7.json")
    with pytest.raises(
        StateError, match=r"7\.json.*version is 1, but must be 7 as in the file's name"
    ):
        Root.at(root).load()


def test_a_version_that_went_meanwhile_says_so(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = Root.at(root)
    monkeypatch.setattr(Root, "versions", lambda _: [1])
    with pytest.raises(StateError, match=r"1\.json was removed while this process read .* vacuum"):
        home.load(1)
