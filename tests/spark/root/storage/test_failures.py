"""Object stores that are slow, that fail, and that lose answers."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kstore_core.errors import (
    CommitConflictError,
    ForkedHandleError,
    StorageUnavailableError,
)
from kstore_core.spark.root.root import Root
from kstore_core.spark.root.vacuum import vacuum
from tests.spark.root.manifests import manifest
from tests.spark.support.object_store import Bucket
from tests.spark.support.web import Proxy


@pytest.fixture
def proxy() -> Proxy:
    return Proxy()


@pytest.fixture(
    params=["bucket", "google_bucket", pytest.param("azure_bucket", marks=pytest.mark.slow)]
)
def store(request: pytest.FixtureRequest) -> Bucket:
    """A bucket of each service."""
    made: Bucket = request.getfixturevalue(request.param)
    return made


@pytest.fixture
def home(store: Bucket, proxy: Proxy) -> Iterator[Root]:
    """A root that is reached through the proxy."""
    with proxy.before(store.server) as address:
        yield store.moved(address).root()


def shard(tmp_path: Path, files: int) -> Path:
    source = tmp_path / "source"
    source.mkdir()
    for number in range(files):
        (source / f"{number}.sst").write_bytes(os.urandom(10_000))
    return source


def test_fifty_files_go_in_three_rounds(home: Root, proxy: Proxy, tmp_path: Path) -> None:
    home.begin("job")
    source = shard(tmp_path, 50)
    proxy.delay_s = 0.5  # so long that all requests of a round begin within it
    proxy.seen.clear()
    home.upload(source, "attempts/job/0-1/0_0")
    puts = [request for request in proxy.seen if request[0] == "PUT"]
    assert len(puts) == 50
    assert proxy.rounds() <= 3


def test_errors_of_the_server_are_tried_again(home: Root, proxy: Proxy, tmp_path: Path) -> None:
    asked: dict[tuple[str, str], int] = {}

    def twice(method: str, path: str) -> int | None:
        asked[method, path] = asked.get((method, path), 0) + 1
        return 503 if asked[method, path] <= 2 else None

    proxy.fate = twice
    home.begin("job")
    home.upload(shard(tmp_path, 3), "attempts/job/0-1/0_0")
    home.close("job")
    home.publish(manifest(1))
    assert home.load() == manifest(1)
    assert len(list(home.storage.files("attempts"))) == 3


def test_an_answer_is_lost_of_a_version_that_was_published(home: Root, proxy: Proxy) -> None:
    lost: list[str] = []

    def once(method: str, path: str) -> str | None:
        if method == "PUT" and not lost:
            lost.append(path)
            return "lost"
        return None

    proxy.fate = once
    home.publish(manifest(1))
    assert len(lost) == 1
    assert home.load() == manifest(1)
    lost.clear()
    with pytest.raises(CommitConflictError):
        home.publish(dataclasses.replace(manifest(1), job="other"))
    assert home.load() == manifest(1)


def test_a_job_begins_though_its_first_answers_are_lost(home: Root, proxy: Proxy) -> None:
    count = 0

    def every_second(method: str, path: str) -> str | None:
        nonlocal count
        count += method == "PUT"
        return "lost" if method == "PUT" and count % 2 else None

    proxy.fate = every_second
    home.begin("job")
    assert home.has_begun("job")


def test_a_server_that_always_fails_is_named(home: Root, proxy: Proxy, store: Bucket) -> None:
    proxy.fate = lambda method, path: 500
    options = {**home.storage.options, "max_retries": 1}  # type: ignore[attr-defined]
    again = dataclasses.replace(store, options=options).root()
    for ask in (again.versions, lambda: again.publish(manifest(1))):
        with pytest.raises(StorageUnavailableError, match=r"refused or failed .* 500 "):
            ask()
    proxy.fate = lambda method, path: None
    assert again.versions() == []


def test_a_writer_is_killed_in_the_middle_of_an_upload(
    home: Root, proxy: Proxy, store: Bucket, tmp_path: Path
) -> None:
    home.begin("job")
    source = shard(tmp_path, 60)
    large = source / "large.sst"
    large.write_bytes(os.urandom(30 << 20))
    proxy.delay_s = 0.2
    options = home.storage.options  # type: ignore[attr-defined]
    program = (
        "from pathlib import Path; from kstore_core.spark.root.root import Root\n"
        f"root = Root.at({store.address()!r}, {options!r})\n"
        f"root.upload(Path({str(source)!r}), 'attempts/job/0-1/0_0')\n"
    )
    proxy.seen.clear()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    writer = subprocess.Popen([sys.executable, "-c", program], env=environment)
    while not any(method == "PUT" for method, *_ in proxy.seen):
        assert writer.poll() is None
        time.sleep(0.01)
    writer.kill()
    writer.wait()
    time.sleep(0.5)  # until the requests have ended that the proxy has already read
    proxy.delay_s = 0
    there = home.storage.files("attempts")
    assert 0 < len(there) < 63
    assert all(entry.bytes in (0, 10_000, 30 << 20) for entry in there), "no object is cut"
    assert home.versions() == []
    time.sleep(1.1)  # the service tells seconds
    vacuum(store.address(), grace_s=0, storage_options=store.options)
    assert store.files() == []


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_process_does_not_wait_forever(bucket: Bucket) -> None:
    bucket.root().publish(manifest(1))
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            answer = str(bucket.root().versions())
        except ForkedHandleError as error:
            answer = f"refused: {error}"
        os.write(writer, answer.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as said:
        assert "refused: this process cannot use s3://" in said.read()
    assert os.waitpid(child, 0)[1] == 0
    assert bucket.root().versions() == [1]
