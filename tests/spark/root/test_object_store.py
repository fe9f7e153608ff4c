"""Roots on S3: what a server decides, what is sent, what it says when it cannot."""

from __future__ import annotations

import dataclasses
import errno
import os
import pickle
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from kstore_core.errors import (
    CommitConflictError,
    CorruptionError,
    EngineUnavailableError,
    SpecError,
    StateError,
    StorageFullError,
    StorageUnavailableError,
    UnsupportedError,
)
from kstore_core.spark.root.manifest import Shard
from kstore_core.spark.root.root import Root
from kstore_core.spark.root.storage.objects import ObjectStore
from tests.spark.root.manifests import manifest
from tests.spark.support.object_store import Bucket

FAST_FAILURE = {"config_kwargs": {"retries": {"max_attempts": 0}, "connect_timeout": 1}}


def test_versions_are_published_and_listed(bucket: Bucket) -> None:
    home = bucket.root()
    assert home.versions() == []
    assert home.newest() is None
    home.check_unused()
    for version in (1, 2, 10):
        home.publish(manifest(version))
    assert home.versions() == [1, 2, 10]
    assert home.newest() == manifest(10)
    assert bucket.root().load(2) == manifest(2)
    assert bucket.root("stores").versions() == []
    with pytest.raises(StateError, match=r"s3://bucket-\d+/stores/rates has no version 3"):
        home.load(3)


def test_a_version_is_published_once(bucket: Bucket) -> None:
    home = bucket.root()
    home.publish(manifest(1))
    home.publish(manifest(1))  # as if the first answer had been lost
    with pytest.raises(CommitConflictError, match=r"1\.json was published by another writer"):
        home.publish(dataclasses.replace(manifest(1), job="other"))
    assert home.load() == manifest(1)


def test_of_many_at_once_one_publishes(bucket: Bucket) -> None:
    barrier, results = threading.Barrier(4), []

    def publish(number: int) -> None:
        mine = dataclasses.replace(manifest(1), job=f"j{number}")
        home = bucket.root()
        barrier.wait()
        try:
            home.publish(mine)
            results.append(mine)
        except CommitConflictError as error:
            results.append(error)

    threads = [threading.Thread(target=publish, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (won,) = [result for result in results if not isinstance(result, Exception)]
    assert len(results) == 4
    assert bucket.root().load() == won


def test_a_server_that_ignores_the_condition_is_refused(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = ObjectStore._files

    class Careless:
        def __init__(self, store: ObjectStore) -> None:
            self.files = files(store)

        def __getattr__(self, name: str) -> Any:
            return getattr(self.files, name)

        def pipe_file(self, path: str, data: bytes, mode: str) -> None:
            self.files.pipe_file(path, data)

    monkeypatch.setattr(ObjectStore, "_files", lambda store: Careless(store))
    with pytest.raises(UnsupportedError, match="ignores conditional requests"):
        bucket.root().begin("job")
    assert bucket.files() == []


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A shard's files in two directories."""
    source = tmp_path / "source"
    (source / "rocksdb" / "s").mkdir(parents=True)
    (source / "rocksdb" / "s" / "1.sst").write_bytes(os.urandom(300_000))
    (source / "rocksdb" / "s" / "CURRENT").write_bytes(b"")
    (source / "rocksdb" / "s" / "LOG").write_bytes(b"not data")
    return source


@pytest.fixture
def uploaded(bucket: Bucket, source: Path) -> tuple[Root, Shard]:
    home = bucket.root()
    home.begin("job")
    place = "attempts/job/0-1/0_0"
    return home, Shard(0, place, home.upload(source, place))


def test_a_shard_goes_and_comes_back(
    uploaded: tuple[Root, Shard], bucket: Bucket, source: Path, tmp_path: Path
) -> None:
    home, shard = uploaded
    assert [file.path for file in shard.files] == ["rocksdb/s/1.sst", "rocksdb/s/CURRENT"]
    home.fetch(shard, tmp_path / "copy")
    for file in shard.files:
        assert (tmp_path / "copy" / file.path).read_bytes() == (source / file.path).read_bytes()
    assert bucket.files() == [
        "stores/rates/attempts/job/0-1/0_0/rocksdb/s/1.sst",
        "stores/rates/attempts/job/0-1/0_0/rocksdb/s/CURRENT",
        "stores/rates/attempts/job/begun",
    ]


def test_what_nobody_wrote_to_is_not_sent_again(
    uploaded: tuple[Root, Shard], bucket: Bucket, tmp_path: Path
) -> None:
    home, shard = uploaded
    copy = tmp_path / "copy"
    stamps = home.fetch(shard, copy)
    (copy / "rocksdb/s/CURRENT").write_bytes(b"new")
    again = Shard(
        0, "attempts/job/0-2/0_0", home.upload(copy, "attempts/job/0-2/0_0", shard, stamps)
    )
    assert [file.at for file in again.files] == [f"{shard.path}/rocksdb/s/1.sst", None]
    assert [name for name in bucket.files() if "/0-2/" in name] == [
        "stores/rates/attempts/job/0-2/0_0/rocksdb/s/CURRENT"
    ]
    with home.local_shard(again) as there:
        assert (there / "rocksdb/s/1.sst").stat().st_size == 300_000
        assert (there / "rocksdb/s/CURRENT").read_bytes() == b"new"
    next_version = dataclasses.replace(manifest(2), shards=(again, Shard(1)))
    home.publish(next_version)
    assert home.load() == next_version
    home.keep_only("job", dataclasses.replace(next_version, shards=(again, Shard(1))))
    assert not home.has_begun("job")
    assert len([name for name in bucket.files() if "/attempts/" in name]) == 3


def test_a_changed_object_is_found(uploaded: tuple[Root, Shard], bucket: Bucket) -> None:
    home, shard = uploaded
    other = Root.at(bucket.address(), bucket.options)
    name = f"{shard.path}/rocksdb/s/1.sst"
    other.storage.delete([name])
    with (
        pytest.raises(CorruptionError, match=r"a file of shard 0 is missing"),
        home.local_shard(shard),
    ):
        pass
    other.storage.put_new(name, b"x" * 300_000)
    with pytest.raises(CorruptionError, match=r"1\.sst differs from its manifest"):
        home.local_shard(shard).__enter__()


def test_a_discarded_job_leaves_nothing(
    uploaded: tuple[Root, Shard], bucket: Bucket, source: Path
) -> None:
    home, _ = uploaded
    home.discard("job")
    assert bucket.files() == []
    with pytest.raises(FileNotFoundError, match="the job has ended"):
        home.upload(source, "attempts/job/0-2/0_0")


def test_a_root_travels_and_keeps_its_secrets(bucket: Bucket) -> None:
    home = pickle.loads(pickle.dumps(bucket.root()))
    assert home == bucket.root()
    assert home.storage.options == bucket.options
    assert "secret-test" not in f"{home} {home!r}"
    with pytest.raises(UnsupportedError, match="needs a local directory"):
        home.path  # noqa: B018


def test_addresses_are_made_alike(bucket: Bucket) -> None:
    home = Root.at(f"s3a://{bucket.name}//stores/rates/", bucket.options)
    assert home == bucket.root()
    with pytest.raises(SpecError, match="has no bucket"):
        Root.at("s3:///x")


def test_an_object_is_no_directory(bucket: Bucket) -> None:
    bucket.root("a").storage.put_new("b", b"")
    with pytest.raises(StateError, match=r"a/b is an object, not a directory"):
        bucket.root("a/b").check_unused()
    with pytest.raises(StateError, match=r"has no partitioned store: it contains 'b'"):
        bucket.root("a").check_unused()


def test_options_that_s3_does_not_have_are_named(bucket: Bucket) -> None:
    with pytest.raises(
        SpecError, match=r"'endpoint', which is not an option of s3fs.*endpoint_url"
    ):
        Root.at(bucket.address(), {"endpoint": "x"})


def test_a_missing_bucket_is_named(bucket: Bucket) -> None:
    home = Root.at("s3://no-such-bucket/x", bucket.options)
    for ask in (home.versions, home.check_unused, lambda: home.begin("job")):
        with pytest.raises(StateError, match=r"the bucket 'no-such-bucket' does not exist. Create"):
            ask()


def test_a_server_that_is_not_there_is_named(bucket: Bucket) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}"
    home = Root.at(bucket.address(), {**bucket.options, **FAST_FAILURE, "endpoint_url": address})
    with pytest.raises(StorageUnavailableError, match=r"Check the network, and endpoint_url"):
        home.versions()


def test_without_credentials_is_said_what_to_give(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    home = Root.at(bucket.address(), {"endpoint_url": bucket.options["endpoint_url"]})
    with pytest.raises(StorageUnavailableError, match=r"access is denied .*AWS_ACCESS_KEY_ID"):
        home.versions()


@pytest.mark.parametrize("code", ["AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch"])
def test_a_server_that_denies_is_named(code: str) -> None:
    from botocore.exceptions import ClientError
    from s3fs.errors import translate_boto_error

    store = ObjectStore.at("s3://b/x", {})
    response = {"Error": {"Code": code, "Message": "no"}}
    with (
        pytest.raises(StorageUnavailableError, match="access is denied"),
        store._translating_errors(),
    ):
        raise translate_boto_error(ClientError(response, "GetObject"))


def test_options_may_be_text() -> None:
    """As those of a data source are."""
    text = {
        "key": "0123",
        "anon": "true",
        "max_concurrency": "4",
        "client_kwargs": '{"region_name": "eu-central-1"}',
    }
    assert ObjectStore.at("s3://b/x", text).options == {
        "key": "0123",
        "anon": True,
        "max_concurrency": 4,
        "client_kwargs": {"region_name": "eu-central-1"},
    }
    with pytest.raises(SpecError, match=r"'anon' is 'yes', not JSON such as true"):
        Root.at("s3://b/x", {"anon": "yes"})


def test_a_full_disk_of_this_machine_says_so(
    uploaded: tuple[Root, Shard], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    home, shard = uploaded
    monkeypatch.setattr(home.storage._files(), "get_file", full)
    with pytest.raises(StorageFullError, match=r"no space left on this machine .*Free some space"):
        home.fetch(shard, tmp_path / "copy")


def test_without_s3fs_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "s3fs", None)
    with pytest.raises(EngineUnavailableError, match=r"pip install 's3fs>=2025"):
        Root.at("s3://b/x")
