"""Roots on HDFS: errors of the name node, and writers that are killed."""

from __future__ import annotations

import dataclasses
import os
import pickle
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kstore_core.errors import (
    EngineUnavailableError,
    SpecError,
    StateError,
    StorageFullError,
    StorageUnavailableError,
)
from kstore_core.spark.root.root import Root
from kstore_core.spark.root.storage import hdfs as module
from kstore_core.spark.root.storage.base import is_scratch
from kstore_core.spark.root.storage.hadoop import _SETTINGS, ARGUMENTS, check_options
from kstore_core.spark.root.storage.hdfs import HdfsFiles
from kstore_core.spark.root.vacuum import vacuum
from tests.spark.root.manifests import manifest
from tests.spark.support.hdfs.cluster import Hdfs
from tests.spark.support.interpreters import run_killed
from tests.spark.support.object_store import Bucket

NOWHERE = "hdfs://127.0.0.1:1/x"


@pytest.fixture
def files(hdfs_bucket: Bucket) -> HdfsFiles:
    return HdfsFiles.at(hdfs_bucket.address(), {})


def test_addresses_are_made_alike() -> None:
    there = HdfsFiles.at("HDFS://h:1//a//b/", {})
    assert there.address == "hdfs://h:1/a/b"
    assert Root.at("hdfs://h:1/a/b").storage == there
    assert pickle.loads(pickle.dumps(there)) == there


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"endpoint": "x"}, r"'endpoint', which is not an option of hdfs://.*kerberos_principal"),
        ({"dfs.nameservice": "x"}, r"'dfs.nameservice', which .* Do you mean 'dfs.nameservices'\?"),
        (
            {"dfs.ha.namenode.ns1": "a,b"},
            r"Do you mean 'dfs.ha.namenodes.<nameservice>'\? .*docs/spark-roots.md",
        ),
        ({"dfs.ha.namenodes.ns1.a": "x"}, r"'dfs.ha.namenodes.ns1.a', which is not an option"),
        ({"config_dirs": "x"}, r"Do you mean 'config_dir'\?"),
        ({"dfs.client.socket-timeout": 3}, r"'dfs.client.socket-timeout' is int, but must be text"),
    ],
)
def test_options_are_checked(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        Root.at(NOWHERE, options)


def test_settings_are_accepted_by_name() -> None:
    check_options(
        {
            "dfs.nameservices": "ns1",
            "dfs.ha.namenodes.ns1": "a,b",
            "dfs.namenode.rpc-address.ns1.a": "h:8020",
            "dfs.client.failover.proxy.provider.ns1": "x",
            "fs.viewfs.mounttable.c1.link./data/a.b": "hdfs://h/x",
            "kerberos_principal": "me",
        }
    )


def test_every_setting_is_on_the_page() -> None:
    page = (Path(__file__).parents[4] / "docs/spark-roots.md").read_text()
    assert [name for name in (*_SETTINGS, *ARGUMENTS) if f"`{name}`" not in page] == []


class _Client:
    """A client of HDFS whose ``rename`` and ``create`` fail as planned."""

    def __init__(self, **errors: Exception) -> None:
        self.errors, self.deleted = errors, []
        self.info: Exception | None = FileNotFoundError("no such file")

    def create(self, place: str, options: object) -> _Client:
        self.fail("create")
        return self

    def write(self, data: bytes) -> None:
        self.fail("write")

    def hsync(self) -> None:
        self.fail("hsync")

    def close(self) -> None:
        self.fail("close")

    def rename(self, old: str, new: str) -> None:
        self.fail("rename")

    def delete(self, place: str) -> None:
        self.deleted.append(place)

    def get_file_info(self, place: str) -> Any:
        if self.info is not None:
            raise self.info
        return SimpleNamespace(isdir=False)

    def fail(self, step: str) -> None:
        if step in self.errors:
            raise self.errors[step]


@pytest.mark.parametrize("step", ["create", "write", "hsync", "close", "rename"])
def test_a_scratch_file_that_disappears_is_no_conflict(
    step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name node answers "no such file" when a vacuum has removed the file."""
    client = _Client(**{step: FileNotFoundError("File does not exist")})
    monkeypatch.setattr(HdfsFiles, "_client", lambda self: client)
    files = HdfsFiles("hdfs://h:1/a", {})
    with pytest.raises(StorageUnavailableError, match=r"m/1 was not written, .*greater grace_s"):
        files.put_new("m/1", b"x")
    assert [place.rpartition("/")[0] for place in client.deleted] == ["/a/m"]


def test_a_repeated_rename_finds_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    client = _Client(rename=FileNotFoundError("File does not exist"))
    client.info = None
    monkeypatch.setattr(HdfsFiles, "_client", lambda self: client)
    with pytest.raises(FileExistsError, match="m/1 exists"):
        HdfsFiles("hdfs://h:1/a", {}).put_new("m/1", b"x")


def test_the_error_of_a_write_is_not_hidden_by_that_of_close(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client = _Client(
        write=RuntimeError("QuotaExceeded: too much"), close=RuntimeError("writer is closed")
    )
    monkeypatch.setattr(HdfsFiles, "_client", lambda self: client)
    with pytest.raises(StorageFullError, match="QuotaExceeded: too much"):
        HdfsFiles("hdfs://h:1/a", {}).put_new("m/1", b"x")


def test_a_name_node_must_be_known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    for address in ("hdfs:///stores/rates", "hdfs://no-such-host.invalid/x"):
        with pytest.raises(
            SpecError, match=r"name node of hdfs://.* is not known .*HADOOP_CONF_DIR"
        ):
            Root.at(address)


@pytest.mark.slow
def test_the_default_file_system_is_found(
    hdfs: Hdfs, hdfs_bucket: Bucket, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    hdfs_bucket.root("x").publish(manifest(1))
    text = (
        f"<property><name>fs.defaultFS</name><value>hdfs://127.0.0.1:{hdfs.port}</value></property>"
    )
    (tmp_path / "core-site.xml").write_text(f"<configuration>{text}</configuration>")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    module._client_of.cache_clear()
    path = hdfs_bucket.name.partition("/")[2]
    assert Root.at(f"hdfs:///{path}/x").versions() == [1]


def test_without_hdfs_native_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hdfs_native", None)
    with pytest.raises(EngineUnavailableError, match=r"pip install 'hdfs-native>=0"):
        Root.at("hdfs://name-node-of-nobody/x")


@pytest.mark.slow
def test_a_name_node_that_does_not_answer_is_named() -> None:
    home = Root.at(NOWHERE, {"dfs.client.failover.max.attempts": "1"})
    with pytest.raises(StorageUnavailableError, match=r"refused or failed .*Check the name node"):
        home.versions()


@pytest.mark.slow
def test_a_user_without_rights_is_named(hdfs_bucket: Bucket) -> None:
    hdfs_bucket.root().publish(manifest(1))
    program = (
        "from kstore_core.spark.root.root import Root\n"
        "from tests.spark.root.manifests import manifest\n"
        f"root = Root.at({hdfs_bucket.address()!r})\n"
        "assert root.versions() == [1]\n"
        "root.publish(manifest(2))\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**environment, "HADOOP_USER_NAME": "nobody"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "StorageUnavailableError" in done.stderr
    assert "access is denied" in done.stderr
    assert "at org.apache" not in done.stderr.rpartition("StorageUnavailableError")[2]
    assert hdfs_bucket.root().versions() == [1]


@pytest.mark.slow
def test_a_quota_is_a_full_disk(hdfs: Hdfs, files: HdfsFiles, tmp_path: Path) -> None:
    files.put_new("m/1", b"x")
    hdfs.command(f"quota {files._place('')} 3000000")
    (tmp_path / "large").write_bytes(os.urandom(8 << 20))
    with pytest.raises(StorageFullError, match=r"a quota of HDFS is exceeded .*vacuum"):
        files.upload({"large": tmp_path / "large"})
    assert files.read("m/1") == b"x"


@pytest.mark.slow
def test_a_name_node_in_safe_mode_changes_nothing(hdfs: Hdfs, files: HdfsFiles) -> None:
    files.put_new("m/1", b"x")
    hdfs.command("safe on")
    try:
        assert files.read("m/1") == b"x"
        with pytest.raises(StorageUnavailableError, match=r"[Ss]afe mode"):
            files.put_new("m/2", b"y")
    finally:
        hdfs.command("safe off")
    assert files.names("m") == ["1"]
    files.put_new("m/2", b"y")
    assert files.names("m") == ["1", "2"]


@pytest.mark.slow
def test_a_root_below_a_file_is_named(files: HdfsFiles) -> None:
    files.put_new("m", b"x")
    with pytest.raises(StateError, match=r"contains a file"):
        files.put_new("m/1", b"x")


@pytest.mark.slow
def test_no_incomplete_manifest_is_read(files: HdfsFiles) -> None:
    """A reader lists and reads while a writer writes."""
    text = os.urandom(3 << 20)
    program = (
        "import os, sys\n"
        "from kstore_core.spark.root.storage.hdfs import HdfsFiles\n"
        f"files = HdfsFiles.at({files.address!r}, {{}})\n"
        "text = sys.stdin.buffer.read()\n"
        "for number in range(10):\n"
        "    files.put_new(f'm/{number}', text)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    writer = subprocess.Popen(
        [sys.executable, "-c", program], env=environment, stdin=subprocess.PIPE
    )
    assert writer.stdin is not None
    writer.stdin.write(text)
    writer.stdin.close()
    seen = 0
    while writer.poll() is None:
        for name in files.names("m"):
            if not name.startswith("."):
                assert files.read(f"m/{name}") == text
                seen += 1
    assert writer.wait() == 0
    assert seen
    assert files.names("m") == [str(number) for number in range(10)]


@pytest.mark.slow
def test_a_writer_is_killed_in_the_middle_of_an_upload(hdfs_bucket: Bucket, tmp_path: Path) -> None:
    home = hdfs_bucket.root()
    home.begin("job")
    source = tmp_path / "source"
    source.mkdir()
    for number in range(60):
        (source / f"{number}.sst").write_bytes(os.urandom(1 << 20))
    program = (
        "from pathlib import Path; from kstore_core.spark.root.root import Root\n"
        f"root = Root.at({hdfs_bucket.address()!r})\n"
        f"root.upload(Path({str(source)!r}), 'attempts/job/0-1/0_0')\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    writer = subprocess.Popen([sys.executable, "-c", program], env=environment)
    while len(list(home.storage.files("attempts"))) < 5:
        assert writer.poll() is None
    writer.kill()
    writer.wait()
    assert 5 <= len(list(home.storage.files("attempts"))) < 61
    assert home.versions() == []
    time.sleep(0.1)
    vacuum(hdfs_bucket.address(), grace_s=0)
    assert hdfs_bucket.files() == []


@pytest.mark.slow
def test_a_writer_is_killed_in_the_middle_of_a_manifest(hdfs_bucket: Bucket) -> None:
    """The scratch file of the manifest stays until a vacuum; the next writer publishes."""
    program = (
        "import os\n"
        "from kstore_core.spark.root.storage.hdfs import HdfsFiles\n"
        f"files = HdfsFiles.at({hdfs_bucket.address()!r}, {{}})\n"
        "HdfsFiles._rename_new = lambda *ignored: os._exit(9)\n"
        "files.put_new('_kstore/1.json', b'x' * 1000)\n"
    )
    assert run_killed(program) == 9
    home = hdfs_bucket.root()
    (left,) = home.storage.names("_kstore")
    assert is_scratch(left)
    home.publish(manifest(1))
    assert home.versions() == [1]
    time.sleep(0.1)
    assert vacuum(hdfs_bucket.address()).files == ()
    assert vacuum(hdfs_bucket.address(), grace_s=0).files == (f"_kstore/{left}",)
    assert home.storage.names("_kstore") == ["1.json"]
    assert home.load() == manifest(1)


@pytest.mark.slow
def test_a_name_node_goes_away_in_the_middle_of_an_upload(
    hdfs: Hdfs, hdfs_bucket: Bucket, tmp_path: Path
) -> None:
    """The calls fail with a named cause. When the name node is back, a job succeeds."""
    bucket = dataclasses.replace(hdfs_bucket, options={"dfs.client.failover.max.attempts": "3"})
    home = bucket.root()
    home.publish(manifest(1))
    source = tmp_path / "source"
    source.mkdir()
    for number in range(200):
        (source / f"{number}.sst").write_bytes(os.urandom(1 << 20))
    home.begin("job")
    with ThreadPoolExecutor(1) as pool:
        upload = pool.submit(home.upload, source, "attempts/job/0-1/0_0")
        while len(home.storage.files("attempts")) < 5:
            assert not upload.done()
        hdfs.command("namenode off")
        try:
            assert isinstance(upload.exception(), StorageUnavailableError)
            for call in (home.versions, lambda: home.publish(manifest(2))):
                with pytest.raises(StorageUnavailableError, match=r"Check the name node"):
                    call()
        finally:
            hdfs.command("namenode on")
    assert home.versions() == [1]
    home.publish(manifest(2))
    assert home.versions() == [1, 2]
    time.sleep(0.1)
    vacuum(hdfs_bucket.address(), grace_s=0)
    assert home.storage.files("attempts") == []
