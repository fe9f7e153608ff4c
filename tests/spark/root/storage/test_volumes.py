"""Roots below /Volumes and /dbfs, on a directory without links, locks, fsync and renames."""

from __future__ import annotations

import dataclasses
import errno
import fcntl
import io
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kstore_core.errors import (
    CommitConflictError,
    StorageFullError,
    StorageUnavailableError,
    UnsupportedError,
)
from kstore_core.spark import vacuum, verify_root
from kstore_core.spark.root.root import Root
from kstore_core.spark.root.storage import volumes
from kstore_core.spark.root.storage.local import LocalFiles
from kstore_core.spark.root.storage.volumes import VolumeFiles
from tests.spark.root.manifests import manifest
from tests.spark.support.faults import files_below, referred, write
from tests.spark.support.logs import SHARDS, SPEC, Model, visible
from tests.spark.write.contents import LOG, contents


@pytest.fixture
def volume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory in which links, locks, fsync and renames fail, as a mount of Databricks."""
    place = tmp_path / "Volumes"
    place.mkdir()
    monkeypatch.setattr(volumes, "MOUNTS", (place,))
    monkeypatch.setenv("KSTORE_SHARD_CACHE", str(tmp_path / "cache"))

    def failing(call: Callable[..., Any], code: int) -> Callable[..., Any]:
        def wrapped(*given: Any, **named: Any) -> Any:
            for one in given:
                if isinstance(one, int) and not isinstance(one, bool):
                    one = Path("/proc/self/fd", str(one))
                    one = one.readlink() if one.is_symlink() else ""
                if isinstance(one, (str, Path)) and Path(one).is_relative_to(place):
                    raise OSError(code, os.strerror(code), str(one))
            return call(*given, **named)

        return wrapped

    for name in ("link", "symlink", "rename", "replace"):
        monkeypatch.setattr(os, name, failing(getattr(os, name), errno.EOPNOTSUPP))
    monkeypatch.setattr(os, "fsync", failing(os.fsync, errno.EINVAL))
    monkeypatch.setattr(fcntl, "flock", failing(fcntl.flock, errno.EOPNOTSUPP))
    return place


@pytest.fixture
def home(volume: Path) -> Root:
    return Root.at(volume / "catalog" / "schema" / "rates")


def model(size: int) -> Any:
    return visible(Model(SHARDS, SPEC.history_retention_ms or 0).put(LOG[:size]))


def test_the_double_has_no_links(volume: Path) -> None:
    (volume / "a").write_bytes(b"")
    with pytest.raises(OSError, match="not supported"):
        os.link(volume / "a", volume / "b")
    with (volume / "a").open("rb") as file:
        with pytest.raises(OSError, match="Invalid argument"):
            os.fsync(file.fileno())
        with pytest.raises(OSError, match="not supported"):
            fcntl.flock(file.fileno(), fcntl.LOCK_SH)


def test_a_store_is_written_continued_and_read(home: Root, volume: Path) -> None:
    write(home, LOG[:40])
    after = write(home, LOG[40:])
    assert contents(home) == model(len(LOG))
    assert contents(home, 1) == model(40)
    assert after.version == 2
    assert any(file.at for shard in after.shards for file in shard.files)
    assert files_below(Path(home.name)) == referred(home)
    assert not list(verify_root(home.name).findings)
    vacuum(home.name, grace_s=0, keep_versions=1)
    assert home.versions() == [2]
    assert contents(home) == model(len(LOG))


def test_a_version_is_published_once(home: Root) -> None:
    home.begin("job")
    home.publish(manifest(1))
    home.publish(manifest(1))
    with pytest.raises(CommitConflictError):
        home.publish(dataclasses.replace(manifest(1), job="other"))


def test_a_writer_that_was_overwritten_is_told(home: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two machines may both create the file. Then the file of the last one stays."""
    monkeypatch.setattr(LocalFiles, "read", lambda self, name: b"other")
    with pytest.raises(FileExistsError, match="another writer at the same time"):
        home.storage.put_new("m/1", b"mine")


def test_an_incomplete_file_is_removed(home: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(io.FileIO):
        def write(self, data: Any) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "open", lambda self, mode: Full(self, mode))
    with pytest.raises(StorageFullError):
        home.storage.put_new("m/1", b"x")
    assert home.storage.names("m") == []


def test_live_shards_are_refused(home: Root) -> None:
    with pytest.raises(UnsupportedError, match=r"rates is not a local directory, but"):
        _ = home.path
    with pytest.raises(UnsupportedError, match=r"cannot exclude a second writer\. For str"):
        home.storage.put_new("live/binding.json", b"{}")
    assert home.storage.names("") == []


def test_names_are_listed_after_a_name(home: Root) -> None:
    for name in ("m/1", "m/2", "m/3"):
        home.storage.put_new(name, b"")
    assert home.storage.names("m", after="1") == ["2", "3"]


def test_paths_of_databricks_are_volumes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for path in ("/Volumes/c/s/v/rates", "/dbfs/rates", "file:/Volumes/c/s/v/rates"):
        storage = Root.at(path).storage
        assert storage == VolumeFiles(Path(path.removeprefix("file:")))
        assert pickle.loads(pickle.dumps(storage)) == storage
    assert isinstance(Root.at("/VolumesOfMine/x").storage, LocalFiles)
    monkeypatch.setattr(Path, "is_dir", lambda self: True)
    assert Root.at("dbfs:/stores/a b").storage == VolumeFiles(Path("/dbfs/stores/a b"))
    assert Root.at("DBFS:/Volumes/c/s").storage == VolumeFiles(Path("/Volumes/c/s"))


@pytest.mark.skipif(Path("/dbfs").exists(), reason="this machine has the mount")
@pytest.mark.parametrize(
    ("address", "message"),
    [
        (
            "dbfs:/stores/rates",
            r"the directory /dbfs/stores/rates on Databricks, but .*/dbfs",
        ),
        ("dbfs:/Volumes/c/s/v", r"no directory /Volumes\. On compute without this mount, pass a"),
        ("dbfs://stores/rates", r"dbfs: is not supported"),
    ],
)
def test_without_the_mount_is_said_what_to_pass(address: str, message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        Root.at(address)


def test_a_directory_without_rights_is_named(volume: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*ignored: Any, **named: Any) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", denied)
    with pytest.raises(StorageUnavailableError, match="Permission denied"):
        Root.at(volume / "x").storage.put_new("m/1", b"x")
