"""An HDFS on this machine, for as long as a session of tests takes."""

from __future__ import annotations

import itertools
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.interop.harness import HarnessUnavailableError, resolve_classpath
from tests.spark.support.object_store import Bucket
from tests.support.class_archive import QUICK

_HERE = Path(__file__).parent
_NUMBERS = itertools.count(1)


@dataclass(frozen=True)
class Hdfs:
    """A name node and a data node in one Java process."""

    process: subprocess.Popen[str]
    port: int

    def command(self, line: str) -> None:
        """Run ``quota DIRECTORY BYTES``, or ``safe`` or ``namenode`` with ``on`` or ``off``.

        Without a name node, the port refuses connections. It gets its files and its port back.
        """
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(line, file=self.process.stdin, flush=True)
        assert self.process.stdout.readline() == "done\n"

    def bucket(self) -> Bucket:
        """A directory that does not exist."""
        return Bucket(f"127.0.0.1:{self.port}/{next(_NUMBERS)}", {}, "hdfs")


def started(cache: Path, place: Path) -> Hdfs:
    """Start a cluster whose files are in ``place``."""
    classpath = resolve_classpath(_HERE / "pom.xml", cache, "hdfs")
    with (place / "log").open("w") as log:
        process = subprocess.Popen(
            [
                *("java", "-Xmx512m", *QUICK, "-cp", classpath, str(_HERE / "MiniHdfs.java")),
                str(place / "data"),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            cwd=place,
        )
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("port "):
            return Hdfs(process, int(line.split()[1]))
    raise AssertionError((place / "log").read_text()[-3000:])


@pytest.fixture
def hdfs_bucket(hdfs: Hdfs, own_cache: None) -> Bucket:
    """A directory of HDFS."""
    return hdfs.bucket()


@pytest.fixture(scope="session")
def hdfs(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    try:
        found = started(
            pytestconfig.cache.mkdir("hdfs"),  # type: ignore[union-attr]
            tmp_path_factory.mktemp("hdfs"),
        )
    except HarnessUnavailableError as reason:
        if "CI" in os.environ:
            raise
        pytest.skip(str(reason))
    with found.process:  # closes the input, at whose end the cluster stops
        yield found
