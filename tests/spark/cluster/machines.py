"""Executors of a local cluster that share no directory, as on machines without a shared disk."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kstore_core.spark.runtime.java import find_java
from tests.support.places import ROOT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_JAVA_HOME = Path(__file__).with_name("machine")
_KERNELS = {"proc", "sysfs", "devpts", "cgroup", "cgroup2", "mqueue", "securityfs"}


def machine_environment(scratch: Path, temporary: Path) -> dict[str, str]:
    """The environment of a cluster in ``scratch`` whose executors have disks of their own.

    The executors see neither ``temporary``, which contains ``scratch``, nor the system's
    directories for temporary files. Where the system refuses this, the test is skipped.
    """
    java = find_java().command
    (spark,) = importlib.import_module("pyspark").__path__
    needed = [ROOT, Path(sys.prefix), Path(sys.base_prefix), java.resolve(), Path(spark)]
    spark = os.environ.get("SPARK_HOME", spark)  # with compiled modules
    hidden: list[Path] = []
    for place in (Path("/dev/shm"), Path("/tmp"), Path("/var/tmp"), temporary.resolve()):
        seen = any(each.is_relative_to(place) for each in needed)
        if place.is_dir() and not seen and not any(map(place.is_relative_to, hidden)):
            hidden.append(place)
    environment = {
        "MACHINE_JAVA": str(java),
        "MACHINE_SPARK": spark,
        "MACHINE_HIDDEN": " ".join(map(str, hidden)),
    }
    _try(environment, scratch)
    return environment


def machine_settings(scratch: Path) -> dict[str, str]:
    """The settings of Spark that give each executor disks of its own."""
    options = f"{os.environ.get('SPARK_SUBMIT_OPTS', '')} -Djava.io.tmpdir={scratch}"
    return {
        "spark.executorEnv.JAVA_HOME": str(_JAVA_HOME),
        "spark.executor.extraJavaOptions": options,
        # The path of a socket in ``scratch`` may exceed the limit of the system, of 107 bytes.
        "spark.python.unix.domain.socket.enabled": "false",
    }


def _try(environment: dict[str, str], scratch: Path) -> None:
    places = {"TMPDIR": str(scratch), "SPARK_HOME": str(scratch / "tried")}
    done = subprocess.run(
        [_JAVA_HOME / "bin" / "java"],
        env={**os.environ, **environment, **places, "MACHINE_JAVA": "true"},
        cwd=scratch,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        pytest.skip(f"an executor cannot have mounts of its own, which needs root: {done.stderr}")
    assert not (scratch / "tried").exists()


@dataclass(frozen=True)
class Sight:
    """The view that a process has of the disks.

    Attributes
    ----------
    namespace : str
        The mount namespace of the process.
    writable : frozenset of int
        The devices of the file systems to which the process can write.
    written : tuple of str
        The files that the process wrote.
    visible : tuple of str
        The files of other processes that the process finds.
    """

    namespace: str
    writable: frozenset[int]
    written: tuple[str, ...]
    visible: tuple[str, ...] = ()


def look(spark: SparkSession) -> list[Sight]:
    """The views of the driver and of two executors, each of which wrote files before."""
    driver = _written()
    context = spark.sparkContext
    barrier = context.parallelize(range(2), 2).barrier()
    executors = barrier.mapPartitions(_Looking(driver.written)).collect()
    written = [file for sight in executors for file in sight.written]
    found = tuple(file for file in written if Path(file).exists())
    return [Sight(driver.namespace, driver.writable, driver.written, found), *executors]


@dataclass(frozen=True)
class _Looking:
    """A task that writes files, and looks for those of the driver and of the other task."""

    driver: Sequence[str]

    def __call__(self, _: object) -> list[Sight]:
        from pyspark import BarrierTaskContext

        context = BarrierTaskContext.get()
        own = _written()
        told = context.allGather("\n".join(own.written))
        others = [file for text in told for file in text.splitlines()]
        found = [file for file in {*others, *self.driver} - {*own.written} if Path(file).exists()]
        context.barrier()  # no task ends, and removes its files, before the others have looked
        return [Sight(own.namespace, own.writable, own.written, tuple(found))]


def _written() -> Sight:
    namespace = str(Path("/proc/self/ns/mnt").readlink())
    files = []
    for place in {Path(tempfile.gettempdir()), Path.cwd()}:
        file = place / f"written-{namespace.strip('mnt:[]')}-{os.getpid()}"
        file.write_text("here")
        files.append(str(file))
    return Sight(namespace, _writable(), tuple(files))


def _writable() -> frozenset[int]:
    devices = set()
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        place, kind = line.split()[4], line.partition(" - ")[2].split()[0]
        if kind not in _KERNELS and os.access(place, os.W_OK):
            devices.add(Path(place).stat().st_dev)
    return frozenset(devices)
