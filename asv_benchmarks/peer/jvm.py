"""Compile and run the workloads on Kafka Streams. This needs a JDK and Maven."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

__all__ = ["PeerUnavailableError", "command", "compiled"]

_PROJECT = Path(__file__).parent / "java"
_CONTEXT = Path(__file__).parents[2] / "tests/interop/java/src/main/java/kstore/context"
"""The base class of the context of a store, which the tests of Kafka Streams' stores share."""

_JAVA_MAJOR = 17
_MAIN = "kstore.peer.Main"


class PeerUnavailableError(Exception):
    """Kafka Streams cannot run on this machine."""


def compiled(work: Path) -> list[str]:
    """Compile the workloads, and return the command that runs a workload.

    Parameters
    ----------
    work : Path
        A directory for the libraries and classes. A later call uses the same libraries.

    Raises
    ------
    PeerUnavailableError
        Java, the compiler or Maven is missing, too old, or fails.
    """
    java, javac, maven = (_program(name) for name in ("java", "javac", "mvn"))
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(\d+)', said)
    if version is None or int(version[1]) < _JAVA_MAJOR:
        raise PeerUnavailableError(
            f"Kafka Streams needs Java {_JAVA_MAJOR} or newer, but {java} says {said.strip()!r}. "
            f"Install a JDK {_JAVA_MAJOR}, for example: apt-get install default-jdk-headless"
        )
    jars, classes = work / "jars", work / "classes"
    if not jars.is_dir():
        copied = work / "jars.partial"
        shutil.rmtree(copied, ignore_errors=True)
        _run(
            [
                *(maven, "-q", "-B", "-f", str(_PROJECT / "pom.xml")),
                *("dependency:copy-dependencies", f"-DoutputDirectory={copied}"),
            ]
        )
        copied.rename(jars)
    return command(java, javac, f"{jars}/*", classes)


def command(java: str, javac: str, libraries: str, classes: Path) -> list[str]:
    """Compile the workloads into the directory ``classes``, and return the command that runs one.

    Parameters
    ----------
    java, javac : str
        The programs.
    libraries : str
        The class path of Kafka Streams.
    """
    shutil.rmtree(classes, ignore_errors=True)
    classes.mkdir(parents=True)
    sources = map(str, sorted([*_PROJECT.rglob("*.java"), *_CONTEXT.glob("*.java")]))
    _run([javac, "-nowarn", "-cp", libraries, "-d", str(classes), *sources])
    return [java, "-Xmx4g", "-cp", f"{classes}:{libraries}", _MAIN]


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise PeerUnavailableError(
            f"the program {name!r} is not on the PATH. The comparison with Kafka Streams needs a "
            f"JDK {_JAVA_MAJOR} and Maven. Install them, for example: "
            "apt-get install default-jdk-headless maven"
        )
    return found


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise PeerUnavailableError(
            f"{command[0]} failed: {(done.stderr or done.stdout).strip()[-2000:]}"
        )
