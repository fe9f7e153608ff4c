"""An S3 server in this process, and a bucket of it for every test."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from kstore_core.spark.root.root import Root

_NUMBERS = itertools.count(1)


@dataclass(frozen=True)
class Bucket:
    """A bucket, and how it is reached."""

    name: str
    options: dict[str, Any]

    def address(self, prefix: str = "stores/rates") -> str:
        return f"s3://{self.name}/{prefix}"

    def root(self, prefix: str = "stores/rates") -> Root:
        return Root.at(self.address(prefix), self.options)

    def files(self) -> list[str]:
        """All keys of the bucket."""
        import s3fs

        found = s3fs.S3FileSystem(**self.options, use_listings_cache=False).find(self.name)
        return sorted(name.removeprefix(f"{self.name}/") for name in found)


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    """The address of a server that keeps objects in the memory of this process."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def bucket(s3_server: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """A bucket of its own, and a cache of shards of its own."""
    import s3fs

    monkeypatch.setenv("KSTORE_SHARD_CACHE", str(tmp_path / "cache"))
    options = {"endpoint_url": s3_server, "key": "test", "secret": "secret-test"}
    made = Bucket(f"bucket-{next(_NUMBERS)}", options)
    s3fs.S3FileSystem(**options).mkdir(made.name)
    return made
