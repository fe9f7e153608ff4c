"""Publishing a version once, and files that are checked on their way."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from kstore_core.errors import CommitConflictError, CorruptionError, StateError, UnsupportedError
from kstore_core.spark.manifest import Shard
from kstore_core.spark.roots import Root
from tests.spark.test_manifest import manifest


def test_a_root_is_a_path_or_a_file_address(tmp_path: Path) -> None:
    there = Root(tmp_path / "a b")
    assert Root.at(tmp_path / "a b") == there
    assert Root.at(str(tmp_path / "a b")) == there
    assert Root.at((tmp_path / "a b").as_uri()) == there
    assert Root.at(f"file:{tmp_path}/a b") == there
    assert Root.at("relative").path.is_absolute()


@pytest.mark.parametrize("where", ["s3://bucket/x", "hdfs:/x", "abfss://c@a/x", "file://host/x"])
def test_other_schemes_say_what_comes_later(where: str) -> None:
    with pytest.raises(UnsupportedError, match="come later"):
        Root.at(where)


def test_an_empty_path_is_no_root() -> None:
    with pytest.raises(ValueError, match="not an empty string"):
        Root.at("")


def test_the_newest_version_is_the_greatest_number(root: Path) -> None:
    home = Root(root)
    assert home.versions() == []
    assert home.newest() is None
    for version in (1, 2, 10):
        home.publish(manifest(version))
    assert home.versions() == [1, 2, 10]
    newest = home.newest()
    assert newest is not None
    assert newest.version == 10
    assert home.load(2).version == 2
    with pytest.raises(StateError, match="no version 3; it has 1 to 10"):
        home.load(3)


def test_a_root_without_manifest_is_named(root: Path) -> None:
    with pytest.raises(StateError, match="holds no store: there is no manifest"):
        Root(root).load()


def test_a_version_is_published_once(root: Path) -> None:
    home = Root(root)
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
    home = Root(root)
    home.check_unused()
    home.begin("job")
    home.check_unused()
    (root / "rocksdb").mkdir()
    with pytest.raises(StateError, match=r"not empty and holds no partitioned store.*'rocksdb'"):
        home.check_unused()


def test_a_file_is_no_root(root: Path) -> None:
    root.touch()
    with pytest.raises(StateError, match="is a file"):
        Root(root).check_unused()


@pytest.fixture
def uploaded(root: Path, tmp_path: Path) -> tuple[Root, Shard]:
    """A shard of three files in two directories."""
    source = tmp_path / "source"
    (source / "rocksdb" / "s").mkdir(parents=True)
    (source / "rocksdb" / "s" / "1.sst").write_bytes(b"x" * 3_000_000)
    (source / "rocksdb" / "s" / "CURRENT").write_bytes(b"")
    (source / "empty").mkdir()
    (source / "a").write_bytes(b"a")
    home = Root(root)
    home.begin("job")
    files = home.upload(source, home.attempts("job") / "0-1" / "0_0")
    return home, Shard(0, "attempts/job/0-1/0_0", files)


def test_what_is_uploaded_can_be_fetched(uploaded: tuple[Root, Shard], tmp_path: Path) -> None:
    home, shard = uploaded
    assert [(file.path, file.bytes) for file in shard.files] == [
        ("a", 1),
        ("rocksdb/s/1.sst", 3_000_000),
        ("rocksdb/s/CURRENT", 0),
    ]
    assert shard.path is not None
    home.fetch(shard.path, shard.files, tmp_path / "copy")
    assert (tmp_path / "copy/rocksdb/s/1.sst").read_bytes() == b"x" * 3_000_000
    assert home.check(shard.path, shard.files) == home.path / shard.path


def test_a_changed_byte_is_found_on_fetching(uploaded: tuple[Root, Shard], tmp_path: Path) -> None:
    home, shard = uploaded
    assert shard.path is not None
    (home.path / shard.path / "a").write_bytes(b"b")
    with pytest.raises(CorruptionError, match="is not what its manifest says"):
        home.fetch(shard.path, shard.files, tmp_path / "copy")


@pytest.mark.parametrize("content", [None, b"aa"])
def test_a_lost_or_cut_file_is_found_on_opening(
    uploaded: tuple[Root, Shard], tmp_path: Path, content: bytes | None
) -> None:
    home, shard = uploaded
    assert shard.path is not None
    victim = home.path / shard.path / "a"
    victim.unlink()
    if content is not None:
        victim.write_bytes(content)
    with pytest.raises(CorruptionError, match=r"a (is missing|has 2 bytes, its manifest says 1)"):
        home.check(shard.path, shard.files)
    with pytest.raises(CorruptionError):
        home.fetch(shard.path, shard.files, tmp_path / "copy")


def test_a_discarded_job_leaves_nothing_and_takes_nothing_more(
    uploaded: tuple[Root, Shard], tmp_path: Path
) -> None:
    home, _ = uploaded
    home.discard("job")
    assert list(home.path.iterdir()) == []
    with pytest.raises(FileNotFoundError):
        home.upload(tmp_path / "source", home.attempts("job") / "0-2" / "0_0")
    home.discard("job")


def test_discarding_leaves_other_jobs_alone(uploaded: tuple[Root, Shard]) -> None:
    home, _ = uploaded
    home.begin("other")
    home.discard("other")
    assert [path.name for path in (home.path / "attempts").iterdir()] == ["job"]


def test_only_what_the_manifest_refers_to_is_kept(
    uploaded: tuple[Root, Shard], tmp_path: Path
) -> None:
    home, shard = uploaded
    home.upload(tmp_path / "source", home.attempts("job") / "0-2" / "0_0")
    home.keep_only("job", dataclasses.replace(manifest(), shards=(shard, Shard(1))))
    assert [path.name for path in home.attempts("job").iterdir()] == ["0-1"]
