"""Spark's own Kafka connector: its jars from Maven, downloaded once."""

from __future__ import annotations

from pathlib import Path

from tests.interop.harness import resolve_classpath

POM = Path(__file__).with_name("pom.xml")


def resolve(cache: Path) -> list[Path]:
    """The connector's jars, downloaded into `cache` once.

    Raises
    ------
    HarnessUnavailableError
        java or mvn is missing, or Maven cannot reach a repository.
    """
    return [Path(jar) for jar in resolve_classpath(POM, cache, "connector").split(":")]
