"""Machines and storages for the tests of states on object stores."""

from __future__ import annotations

from pathlib import Path

import pytest

from kstore_core.spark.root.root import Root
from kstore_core.spark.root.storage.local import LocalFiles
from tests.spark.remote.machines import Machine
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


@pytest.fixture
def objects(tmp_path: Path, machine: Machine) -> Root:
    """A root on files that are taken for an object store."""
    return Root(FaultyObjects(LocalFiles(tmp_path / "objects")))


@pytest.fixture
def storage(tmp_path: Path, machine: Machine) -> LocalFiles:
    """Files that are taken for an object store, because they are used as one."""
    return LocalFiles(tmp_path / "objects")


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest) -> Bucket:
    """A bucket of each service, and a directory of HDFS."""
    made: Bucket = request.getfixturevalue(request.param)
    return made
