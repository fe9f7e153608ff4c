"""Local files, HDFS, S3, Google Cloud Storage and Azure keep the promises of `Storage`."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import pickle
import threading
import time
from pathlib import Path

import pytest

from kstore_core.errors import CommitConflictError, StateError
from kstore_core.spark.root.root import Root
from kstore_core.spark.root.storage.base import Storage
from tests.spark.root.manifests import manifest
from tests.spark.support.object_store import Bucket

OBJECT_STORES = ["bucket", "google_bucket", pytest.param("azure_bucket", marks=pytest.mark.slow)]
HDFS = pytest.param("hdfs_bucket", marks=pytest.mark.slow)
ODD = "d/a b#%é~=+?&.sst"


@pytest.fixture(params=["local", *OBJECT_STORES, HDFS])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Root:
    """A root that does not exist yet."""
    if request.param == "local":
        return Root.at(tmp_path / "root" / "a")
    made: Bucket = request.getfixturevalue(request.param)
    return made.root("stores/a")


@pytest.fixture
def storage(home: Root) -> Storage:
    return home.storage


def test_nothing_is_there(storage: Storage) -> None:
    assert storage.names("") == []
    assert storage.names("x/y") == []
    assert list(storage.files("x")) == []
    for ask in (storage.size, storage.read, storage.digest):
        with pytest.raises(FileNotFoundError):
            ask("x")
    storage.delete(["x", "x/y"])
    storage.delete_tree("x")


def test_names_after_another_are_listed(storage: Storage) -> None:
    for number in (1, 2, 10, 11):
        storage.put_new(f"m/{number:03}.json", b"")
    storage.put_new("m/003/x", b"")
    storage.put_new("n", b"")
    assert storage.names("m", after="002.json") == ["003", "010.json", "011.json"]
    assert storage.names("m", after="005") == ["010.json", "011.json"]
    assert storage.names("m", after="011.json") == []
    assert storage.names("missing", after="1") == []


def test_a_new_file_is_written_once(storage: Storage) -> None:
    storage.put_new("m/1", b"one")
    with pytest.raises(FileExistsError):
        storage.put_new("m/1", b"other")
    storage.put_new(ODD, b"")
    assert storage.read("m/1") == b"one"
    assert storage.read(ODD) == b""
    assert storage.size("m/1") == 3
    assert storage.digest("m/1") == (3, hashlib.sha256(b"one").hexdigest())
    assert storage.digest(ODD) == (0, hashlib.sha256().hexdigest())
    assert storage.names("") == ["d", "m"]
    assert storage.names("m") == ["1"]
    assert storage.names("d") == [ODD.removeprefix("d/")]


def test_of_many_writers_one_wins(storage: Storage) -> None:
    results: list[int | None] = []
    barrier = threading.Barrier(6)

    def write(number: int) -> None:
        barrier.wait()
        try:
            storage.put_new("m/1", b"%d" % number)
            results.append(number)
        except FileExistsError:
            results.append(None)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (won,) = [number for number in results if number is not None]
    assert len(results) == 6
    assert storage.read("m/1") == b"%d" % won


def test_files_travel(storage: Storage, tmp_path: Path) -> None:
    contents = {f"a/b/{number}.sst": os.urandom(1000 + number) for number in range(60)}
    contents |= {"a/empty": b"", ODD: b"odd", "a/large": os.urandom(20 << 20)}
    sources = {}
    for number, (name, content) in enumerate(contents.items()):
        sources[name] = tmp_path / f"source-{number}"
        sources[name].write_bytes(content)
    before_ms = time.time() * 1000
    storage.upload(sources)
    storage.settle("a")
    found = {entry.name: entry for entry in storage.files("a")}
    assert {name: entry.bytes for name, entry in found.items()} == {
        name: len(content) for name, content in contents.items() if name.startswith("a/")
    }
    assert all(abs(entry.modified_ms - before_ms) < 60_000 for entry in found.values())
    targets = {name: tmp_path / f"target-{number}" for number, name in enumerate(contents)}
    storage.download(targets)
    assert {name: path.read_bytes() for name, path in targets.items()} == contents
    assert storage.digest("a/large")[0] == 20 << 20
    place = storage.reuse("a/large", "c/large")
    assert storage.read(place) == contents["a/large"]
    storage.delete(["a/empty", "a/no-such-file", "a/large"])
    assert storage.names("a") == ["b"]
    storage.delete_tree("a")
    storage.delete_tree("d")
    assert list(storage.files("a")) == []


def test_a_missing_file_is_not_downloaded(storage: Storage, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        storage.download({"x": tmp_path / "x"})


def test_a_file_is_no_directory(home: Root) -> None:
    home.storage.put_new("x", b"")
    other = Root(pickle.loads(pickle.dumps(home.storage)))
    with pytest.raises(StateError, match=r"stores/a/x is|/a/x is"):
        other.storage.names("x")


def test_a_version_is_published_once(home: Root) -> None:
    home.begin("job")
    assert home.has_begun("job")
    home.close("job")
    home.publish(manifest(1))
    home.publish(manifest(1))  # as if the first answer had been lost
    with pytest.raises(CommitConflictError, match=r"1\.json was published by another writer"):
        home.publish(dataclasses.replace(manifest(1), job="other"))
    assert home.versions() == [1]
    assert home.load() == manifest(1)


@pytest.mark.parametrize("kind", OBJECT_STORES)
def test_a_container_that_does_not_exist_is_named(
    request: pytest.FixtureRequest, kind: str
) -> None:
    made: Bucket = request.getfixturevalue(kind)
    nowhere = dataclasses.replace(made, name="no-such-container").root()
    with pytest.raises(StateError, match=r"'no-such-container' does not exist\. Create the"):
        nowhere.versions()


@pytest.mark.parametrize("kind", OBJECT_STORES)
def test_secrets_are_not_shown(request: pytest.FixtureRequest, kind: str) -> None:
    made: Bucket = request.getfixturevalue(kind)
    for text in (repr(made.root()), str(made.root())):
        assert not any(str(value) in text for value in made.options.values())
