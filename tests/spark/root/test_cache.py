"""Copies of shards on this machine: fetched once, used by several, removed when there are many."""

from __future__ import annotations

import dataclasses
import os
import threading
from pathlib import Path

import pytest

from kstore_core.errors import CorruptionError, SpecError
from kstore_core.spark.root.cache import cache_directory, cached_shard
from kstore_core.spark.root.manifest import Shard
from kstore_core.spark.root.root import Root
from kstore_core.spark.root.storage.local import LocalFiles


class Counting(LocalFiles):
    """Local files that say how many were downloaded."""

    downloads: list[str] = []  # noqa: RUF012 - of all instances

    def download(self, files, *, linked=False):  # type: ignore[no-untyped-def]
        self.downloads.extend(files)
        super().download(files, linked=linked)


@pytest.fixture
def storage(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Counting:
    monkeypatch.setenv("KSTORE_SHARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(Counting, "downloads", [])
    return Counting(root)


def made(storage: LocalFiles, number: int, size: int = 100) -> Shard:
    """A published shard of one file."""
    home = Root(storage)
    source = storage.path.with_name(f"source{number}")
    source.mkdir()
    (source / "1.sst").write_bytes(bytes([number]) * size)
    job = f"job{number}"
    home.begin(job)
    place = f"attempts/{job}/{number}-1/0_{number}"
    return Shard(number, place, home.upload(source, place))


def copies(cache: Path) -> set[str]:
    return {path.name for path in cache.iterdir() if path.is_dir() and path.name != "files"}


def test_a_shard_is_fetched_once(storage: Counting, tmp_path: Path) -> None:
    shard = made(storage, 1)
    with cached_shard(storage, shard) as first, cached_shard(storage, shard) as second:
        assert first == second
        assert (first / "1.sst").read_bytes() == b"\1" * 100
    with cached_shard(storage, shard):
        pass
    assert len(storage.downloads) == 1
    assert (tmp_path / "cache").stat().st_mode & 0o777 == 0o700


def test_several_at_once_fetch_it_once(storage: Counting) -> None:
    shard, barrier = made(storage, 1), threading.Barrier(4)
    seen = []

    def read() -> None:
        barrier.wait()
        with cached_shard(storage, shard) as path:
            seen.append((path / "1.sst").read_bytes())

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [b"\1" * 100] * 4
    assert len(storage.downloads) == 1


def test_the_least_recently_used_goes_first(
    storage: Counting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KSTORE_SHARD_CACHE_BYTES", "250")
    shards = [made(storage, number) for number in (1, 2, 3)]
    names = []
    for place, shard in enumerate(shards[:2]):
        with cached_shard(storage, shard) as path:
            names.append(path.name)
        os.utime(path.with_name(f"{path.name}.lock"), (place, place))
    with cached_shard(storage, shards[0]):  # used again
        pass
    with cached_shard(storage, shards[2]) as path:
        assert copies(tmp_path / "cache") == {names[0], path.name}


def test_only_what_is_new_of_a_shard_is_fetched(storage: Counting, tmp_path: Path) -> None:
    """Tables that the version before has are linked; what engines write to is fetched always."""
    source, home = tmp_path / "growing", Root(storage)
    source.mkdir()
    shards = []
    for number in (1, 2):
        (source / f"{number}.sst").write_bytes(bytes([number]) * 100)
        (source / "CURRENT").write_bytes(b"same")
        home.begin(f"job{number}")
        place = f"attempts/job{number}/0-1/0_0"
        shards.append(Shard(0, place, home.upload(source, place)))
    with cached_shard(storage, shards[0]) as first:
        storage.downloads.clear()
        with cached_shard(storage, shards[1]) as second:
            assert sorted(name.rpartition("/")[2] for name in storage.downloads) == [
                "2.sst",
                "CURRENT",
            ]
            assert (second / "1.sst").samefile(first / "1.sst")
            assert not (second / "CURRENT").samefile(first / "CURRENT")


def test_a_file_of_no_copy_goes_with_the_last_one(
    storage: Counting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KSTORE_SHARD_CACHE_BYTES", "0")
    shards = [made(storage, number) for number in (1, 2)]
    for shard in shards:
        with cached_shard(storage, shard):
            pass
    files = {path.name for path in (tmp_path / "cache" / "files").iterdir()}
    assert files == {shards[1].files[0].sha256}


def test_a_damaged_file_of_another_copy_is_not_taken(storage: Counting) -> None:
    shard = made(storage, 1)
    with cached_shard(storage, shard) as path:
        (path / "1.sst").write_bytes(b"x" * 100)
    with cached_shard(storage, dataclasses.replace(shard, shard=2)) as path:
        assert (path / "1.sst").read_bytes() == b"\1" * 100


def test_what_is_being_read_stays(
    storage: Counting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KSTORE_SHARD_CACHE_BYTES", "0")
    shards = [made(storage, number) for number in (1, 2, 3)]
    with cached_shard(storage, shards[0]) as first:
        with cached_shard(storage, shards[1]) as second:
            assert copies(tmp_path / "cache") == {first.name, second.name}
        with cached_shard(storage, shards[2]) as third:
            assert copies(tmp_path / "cache") == {first.name, third.name}
            assert (first / "1.sst").exists()


def test_what_a_killed_process_left_is_made_anew(storage: Counting, tmp_path: Path) -> None:
    shard = made(storage, 1)
    with cached_shard(storage, shard) as path:
        name = path.name
    path.rename(tmp_path / "cache" / f"{name}.tmp")
    (tmp_path / "cache" / f"{name}.tmp" / "1.sst").write_bytes(b"half")
    with cached_shard(storage, shard) as path:
        assert (path / "1.sst").read_bytes() == b"\1" * 100
    assert copies(tmp_path / "cache") == {name}


def test_a_copy_that_cannot_be_made_leaves_nothing(storage: Counting, tmp_path: Path) -> None:
    shard = made(storage, 1)
    (storage.path / str(shard.path) / "1.sst").write_bytes(b"x" * 100)
    with pytest.raises(CorruptionError, match="differs from its manifest"):
        cached_shard(storage, shard).__enter__()
    assert copies(tmp_path / "cache") == set()


def test_a_local_root_with_files_elsewhere_is_read_through_the_cache(
    storage: Counting, tmp_path: Path
) -> None:
    """As where a store was copied from an object store to a disk."""
    shard = made(storage, 1)
    moved = Shard(
        1,
        "attempts/job2/1-1/0_1",
        (dataclasses.replace(shard.files[0], at=shard.place_of(shard.files[0])),),
    )
    with Root(storage).local_shard(moved) as path:
        assert path.is_relative_to(tmp_path / "cache")
        assert (path / "1.sst").read_bytes() == b"\1" * 100


@pytest.mark.parametrize("text", ["-1", "1GB", "x"])
def test_a_size_that_is_none_is_refused(
    storage: Counting, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv("KSTORE_SHARD_CACHE_BYTES", text)
    with pytest.raises(SpecError, match="is not a number of bytes"):
        cached_shard(storage, made(storage, 1)).__enter__()


def test_somebody_elses_directory_is_refused(
    storage: Counting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cache").mkdir()
    monkeypatch.setattr("os.getuid", lambda: 12345)
    with pytest.raises(SpecError, match="belongs to another user"):
        cache_directory()
