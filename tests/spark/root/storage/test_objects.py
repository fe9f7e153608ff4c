"""Roots on S3: what a server decides, what is sent, what it says when it cannot."""

from __future__ import annotations

import dataclasses
import errno
import os
import pickle
import socket
import sys
import threading
from pathlib import Path
from typing import Any

import obstore
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
from kstore_core.spark.root.storage.services import client_of
from tests.spark.root.manifests import manifest
from tests.spark.support.object_store import Bucket, ignore_conditions
from tests.spark.support.web import answering

FAST_FAILURE = {"max_retries": 0}


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
    ignore_conditions(monkeypatch)
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
    with pytest.raises(UnsupportedError, match="is not a local directory"):
        home.path  # noqa: B018


def test_addresses_are_made_alike(bucket: Bucket) -> None:
    home = Root.at(f"s3a://{bucket.name}//stores/rates/", bucket.options)
    assert home == bucket.root()
    with pytest.raises(SpecError, match="has no bucket"):
        Root.at("s3:///x")
    for address in ("s3://b/a/../x", "gs://b/./x", "hdfs://h:1/..", "az://c/.."):
        with pytest.raises(SpecError, match=r"contains '\.' or '\.\.'; pass the path without it"):
            Root.at(address)
    with pytest.raises(SpecError, match=r"the account of the container 'c' is not known; pass"):
        Root.at("az://c/x")


def test_an_object_is_no_directory(bucket: Bucket) -> None:
    bucket.root("a").storage.put_new("b", b"")
    with pytest.raises(StateError, match=r"a/b is an object, not a directory"):
        bucket.root("a/b").check_unused()
    with pytest.raises(StateError, match=r"has no partitioned store: it contains 'b'"):
        bucket.root("a").check_unused()


def test_options_that_s3_does_not_have_are_named(bucket: Bucket) -> None:
    with pytest.raises(
        SpecError, match=r"'client_kwargs', which is not an option of s3://.*endpoint.*region"
    ):
        Root.at(bucket.address(), {"client_kwargs": "x"})
    with pytest.raises(SpecError, match=r"'region' is dict, but must be text"):
        Root.at(bucket.address(), {"region": {}})
    with pytest.raises(SpecError, match=r"'max_retries' is 'many', but must be"):
        Root.at(bucket.address(), {"max_retries": "many"})
    with pytest.raises(
        SpecError, match=r"'max_retries' is -1, but must be an integer of 0 or more"
    ):
        Root.at(bucket.address(), {"max_retries": -1})
    for endpoint in ("127.0.0.1:9000", "not an address", "http://"):
        with pytest.raises(SpecError, match=r"'endpoint' is '.*', not an address such as https"):
            Root.at(bucket.address(), {"endpoint": endpoint})
    with pytest.raises(SpecError, match=r"options of the bucket 'b' are not valid: .*\"maybe\""):
        Root.at("s3://b/x", {"allow_http": "maybe"})


def test_names_of_options_of_other_libraries_are_known(s3_server: str, bucket: Bucket) -> None:
    bucket.root().publish(manifest(1))
    options = {"endpoint_url": s3_server, "key": "test", "secret": "secret-test"}
    assert Root.at(bucket.address(), options).versions() == [1]


def test_a_missing_bucket_is_named(bucket: Bucket) -> None:
    home = Root.at("s3://no-such-bucket/x", bucket.options)
    for ask in (home.versions, home.check_unused, lambda: home.begin("job")):
        with pytest.raises(StateError, match=r"the bucket 'no-such-bucket' does not exist. Create"):
            ask()


def test_a_server_that_is_not_there_is_named(bucket: Bucket) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}"
    home = Root.at(bucket.address(), {**bucket.options, **FAST_FAILURE, "endpoint": address})
    with pytest.raises(StorageUnavailableError, match=r"Check the network, and the endpoint"):
        home.versions()


def test_without_credentials_is_said_what_to_give(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    with socket.socket() as free:  # where no instance answers
        free.bind(("127.0.0.1", 0))
        nothing = f"http://127.0.0.1:{free.getsockname()[1]}/latest/api/token"
    options = {"endpoint": bucket.options["endpoint"], "metadata_endpoint": nothing}
    home = Root.at(bucket.address(), {**options, **FAST_FAILURE})
    with pytest.raises(StorageUnavailableError, match=r"access is denied .*AWS_ACCESS_KEY_ID"):
        home.versions()


@pytest.mark.parametrize(
    ("status", "code"), [(403, "AccessDenied"), (403, "InvalidAccessKeyId"), (401, "Unauthorized")]
)
def test_a_server_that_denies_is_named(bucket: Bucket, status: int, code: str) -> None:
    answer = f"<Error><Code>{code}</Code><Message>no</Message></Error>"
    with answering(status, answer) as address:
        home = Root.at(bucket.address(), {**bucket.options, "endpoint": address})
        for ask in (home.versions, lambda: home.storage.read("x")):
            with pytest.raises(StorageUnavailableError, match=rf"access is denied \(.*{code}"):
                ask()


def test_another_region_is_named(bucket: Bucket) -> None:
    with answering(301, "<Error><Code>PermanentRedirect</Code></Error>") as address:
        home = Root.at(bucket.address(), {**bucket.options, "endpoint": address})
        with pytest.raises(StorageUnavailableError, match=r"is in another region. Pass .*region"):
            home.versions()


def test_an_aws_profile_has_the_credentials(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    file = tmp_path / "credentials"
    file.write_text("[mine]\naws_access_key_id = test\naws_secret_access_key = secret-test\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    bucket.root().publish(manifest(1))
    options = {"endpoint": bucket.options["endpoint"]}
    assert Root.at(bucket.address(), {**options, "profile": "mine"}).versions() == [1]
    with pytest.raises(SpecError, match=r"the AWS profile 'other' cannot be used"):
        Root.at(bucket.address(), {**options, "profile": "other"})
    monkeypatch.setenv("AWS_PROFILE", "mine")
    assert Root.at(bucket.address("elsewhere"), options).versions() == []


@pytest.mark.parametrize("options", [{}, {"timeout": "30s"}], ids=["none", "timeout"])
def test_the_environment_has_the_endpoint(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    bucket.root().publish(manifest(1))
    home = Root.at(bucket.address(), {"region": "us-east-1", **options})
    variables = {"ENDPOINT": bucket.options["endpoint"], "ALLOW_HTTP": "true"}
    variables |= {"ACCESS_KEY_ID": "test", "SECRET_ACCESS_KEY": "secret-test"}
    for name, value in variables.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    client_of.cache_clear()
    assert home.versions() == [1]


def test_options_may_be_text() -> None:
    """As those of a data source are."""
    text = {"skip_signature": "true", "max_retries": "3", "region": "eu-central-1"}
    assert ObjectStore.at("s3://b/x", text).options == text


def test_a_full_disk_of_this_machine_says_so(
    uploaded: tuple[Root, Shard], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    home, shard = uploaded
    monkeypatch.setattr(obstore, "get", full)
    with pytest.raises(StorageFullError, match=r"no space left on this machine .*Free some space"):
        home.fetch(shard, tmp_path / "copy")


def test_without_obstore_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore.store", None)
    with pytest.raises(EngineUnavailableError, match=r"pip install 'obstore>=0"):
        Root.at("s3://bucket-of-nobody/x")
