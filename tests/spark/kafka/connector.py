"""Spark's own Kafka connector: its jars from Maven, downloaded once."""

from __future__ import annotations

import fcntl
from pathlib import Path

from tests.interop.harness import require_java, run_maven

POM = Path(__file__).with_name("pom.xml")


def resolve(cache: Path) -> list[Path]:
    """The connector's jars, downloaded into `cache` once.

    Raises
    ------
    HarnessUnavailableError
        java or mvn is missing, or Maven cannot reach a repository.
    """
    require_java()
    cache.mkdir(parents=True, exist_ok=True)
    classpath, stamp = cache / "connector-classpath", cache / "connector-stamp"
    with (cache / "build.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (stamp.exists() and stamp.read_text() == POM.read_text()):
            run_maven(POM, cache, f"-Dmdep.outputFile={classpath}", "dependency:build-classpath")
            stamp.write_text(POM.read_text())
    return [Path(jar) for jar in classpath.read_text().strip().split(":")]
