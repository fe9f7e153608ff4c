"""Machines and storages for the tests of states on object stores."""

from __future__ import annotations

from pathlib import Path

import pytest

from kstore_core.spark.root.root import Root
from kstore_core.spark.root.storage.local import LocalFiles
from tests.spark.remote.machines import Machine, Places
from tests.spark.remote.requests import STORES
from tests.spark.support.faults import FaultyObjects
from tests.spark.support.object_store import Bucket


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A function that moves this process to a machine with a cache of its own."""

    def move(name: str) -> None:
        monkeypatch.setenv("KSTORE_SHARD_CACHE", str(tmp_path / f"cache-{name}"))

    move("first")
    return move


@pytest.fixture(params=["local", *STORES])
def objects(request: pytest.FixtureRequest, tmp_path: Path, machine: Machine) -> Root:
    """A root in each storage, of which files are taken for an object store."""
    if request.param == "local":
        return Root(FaultyObjects(LocalFiles(tmp_path / "objects")))
    root: Root = request.getfixturevalue(request.param).root()
    machine("first")
    return root


@pytest.fixture
def places(request: pytest.FixtureRequest, tmp_path: Path) -> Places:
    """A function that returns the storage of a name, which is taken for an object store.

    The test names the kind of storage. The sinks and the streams share the requests of a commit, so
    either takes some kinds. S3 has a test for each of its requests.
    """
    if request.param == "local":
        return lambda name: LocalFiles(tmp_path / name)
    bucket: Bucket = request.getfixturevalue(request.param)
    return lambda name: bucket.root(name).storage


@pytest.fixture
def storage(tmp_path: Path, machine: Machine) -> LocalFiles:
    """Files that are taken for an object store, because they are used as one."""
    return LocalFiles(tmp_path / "objects")


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest) -> Bucket:
    """A bucket of each service, and a directory of HDFS."""
    made: Bucket = request.getfixturevalue(request.param)
    return made
