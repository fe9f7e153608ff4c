"""Object stores on this machine, and a bucket of them for every test."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import hmac
import itertools
import json
import os
import shutil
import subprocess
import threading
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import boto3
import obstore
import pytest

from kstore_core.spark.root.root import Root
from tests.spark.support.web import Proxy

_NUMBERS = itertools.count(1)
_AZURITE = "3.37.0"
ACCOUNT = "devstoreaccount1"
ACCOUNT_KEY = (  # that of every emulator
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)


_SIGNED = (
    "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/s3/aws4_request, "
    "SignedHeaders=host, Signature=0"
)


@dataclass(frozen=True)
class Bucket:
    """A bucket, and how it is reached."""

    name: str
    options: dict[str, Any]
    scheme: str = "s3"

    def address(self, prefix: str = "stores/rates") -> str:
        return f"{self.scheme}://{self.name}/{prefix}"

    def root(self, prefix: str = "stores/rates") -> Root:
        return Root.at(self.address(prefix), self.options)

    @property
    def server(self) -> str:
        """The address of the server of an object store."""
        if self.scheme == "gs":
            return str(json.loads(self.options["service_account_key"])["gcs_base_url"])
        return str(self.options["endpoint"])

    def moved(self, server: str) -> Bucket:
        """The bucket as it is reached at another host and port of its server."""
        changed = {"endpoint": server + urlsplit(self.server).path}
        if self.scheme == "gs":
            changed = {"service_account_key": google_key(server)}
        return dataclasses.replace(self, options={**self.options, **changed})

    def files(self) -> list[str]:
        """All keys of the bucket."""
        return sorted(entry.name for entry in self.root("").storage.files(""))


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    """The address of a server that keeps objects in the memory of this process.

    Moto's own server would look for the service of each request among all services of AWS, which
    takes longer than the answer.
    """
    from moto.moto_server.werkzeug_app import MotoRequestHandler, create_backend_app
    from werkzeug.serving import make_server

    class Quiet(MotoRequestHandler):
        def log(self, *_: object) -> None:
            pass

    app = create_backend_app("s3")
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=Quiet)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def bucket(s3_server: str, own_cache: None) -> Bucket:
    """A bucket of S3."""
    return Bucket(made_s3(s3_server), s3_options(s3_server))


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of shards for one test."""
    monkeypatch.setenv("KSTORE_SHARD_CACHE", str(tmp_path / "cache"))


def made_s3(server: str, name: str = "bucket-") -> str:
    """Make a bucket whose name begins with ``name``, and return its name."""
    name += str(next(_NUMBERS))
    client = boto3.client(
        "s3",
        endpoint_url=server,
        aws_access_key_id="test",
        aws_secret_access_key="secret-test",
        region_name="us-east-1",
    )
    client.create_bucket(Bucket=name)
    return name


def s3_options(server: str) -> dict[str, Any]:
    """The storage options with which a test reaches a server."""
    return {"endpoint": server, "access_key_id": "test", "secret_access_key": "secret-test"}


@pytest.fixture(scope="session")
def google_server(s3_server: str) -> Iterator[str]:
    """The address of a server with the XML API of Google Cloud Storage.

    This API is that of S3, except for the headers of conditions and of identities. No emulator
    that a package index has knows the uploads of this API.
    """
    proxy = Proxy(
        replaced={"x-goog-if-generation-match": ("if-none-match", "*")},
        added={"authorization": _SIGNED},
    )
    with proxy.before(s3_server) as address:
        yield address


@pytest.fixture
def google_bucket(s3_server: str, google_server: str, own_cache: None) -> Bucket:
    options = {"service_account_key": google_key(google_server), "allow_http": True}
    return Bucket(made_s3(s3_server, "bucket"), options, "gs")  # moto decodes no "%2D"


def google_key(server: str) -> str:
    """The text of a key for a server of Google Cloud Storage that checks no identity."""
    account = {"gcs_base_url": server, "disable_oauth": True, "client_email": ""}
    return json.dumps({**account, "private_key": "", "private_key_id": ""})


@pytest.fixture(scope="session")
def azure_server(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The address of an Azurite, Microsoft's emulator, which npm installs to pytest's cache."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed, which installs Azurite")
    program = _azurite(pytestconfig.cache.mkdir("azurite"))  # type: ignore[union-attr]
    command = [
        *(str(program), "--inMemoryPersistence", "--silent", "--disableTelemetry"),
        *("--skipApiVersionCheck", "--blobHost", "127.0.0.1", "--blobPort", "0"),
    ]
    place = tmp_path_factory.mktemp("azurite")
    with subprocess.Popen(command, cwd=place, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield f"{_printed_address(process)}/{ACCOUNT}"
        finally:
            process.terminate()


@pytest.fixture
def azure_bucket(azure_server: str, own_cache: None) -> Bucket:
    name = f"container-{next(_NUMBERS)}"
    _make_container(azure_server, name)
    options = {"account_name": ACCOUNT, "account_key": ACCOUNT_KEY, "endpoint": azure_server}
    return Bucket(name, options, "az")


def _azurite(cache: Path) -> Path:
    """Install Azurite unless it is there, and return the program of its blob service."""
    program = cache / _AZURITE / "node_modules" / ".bin" / "azurite-blob"
    if not program.exists():
        with (cache / "lock").open("w") as lock:
            import fcntl

            fcntl.flock(lock, fcntl.LOCK_EX)
            if not program.exists():
                npm = ["npm", "install", "--silent", "--no-audit", "--no-fund"]
                where = ["--prefix", str(cache / _AZURITE), f"azurite@{_AZURITE}"]
                done = subprocess.run([*npm, *where], capture_output=True, text=True, check=False)
                if done.returncode and "CI" not in os.environ:
                    pytest.skip(f"npm cannot install Azurite: {done.stderr}")
                assert done.returncode == 0, done.stdout + done.stderr
    return program


def _printed_address(process: subprocess.Popen[str]) -> str:
    """Wait for the address that Azurite prints.

    Azurite chooses the port. A port that this process had found free could be another server's
    by the time that Azurite opens it.
    """
    lines = []
    for line in process.stdout or ():
        if "successfully listens on" in line:
            return line.split()[-1]
        lines.append(line)
    raise AssertionError(f"Azurite does not start: {''.join(lines)}")


def _make_container(server: str, name: str) -> None:
    now = datetime.now(UTC).strftime("%a, %d %b %Y %H:%M:%S GMT")
    version = "2021-08-06"
    lines = "PUT" + "\n" * 12 + f"x-ms-date:{now}\nx-ms-version:{version}\n"
    text = f"{lines}/{ACCOUNT}/{ACCOUNT}/{name}\nrestype:container"
    key = base64.b64decode(ACCOUNT_KEY)
    signature = base64.b64encode(hmac.new(key, text.encode(), hashlib.sha256).digest()).decode()
    request = urllib.request.Request(f"{server}/{name}?restype=container", method="PUT")
    request.add_header("x-ms-date", now)
    request.add_header("x-ms-version", version)
    request.add_header("Authorization", f"SharedKey {ACCOUNT}:{signature}")
    request.add_header("Content-Length", "0")
    urllib.request.urlopen(request).close()


def ignore_conditions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every put unconditional, as a server does that knows no conditions."""
    put = obstore.put

    def careless(*arguments: Any, mode: str | None = None, **others: Any) -> Any:
        return put(*arguments, **others)

    monkeypatch.setattr(obstore, "put", careless)
