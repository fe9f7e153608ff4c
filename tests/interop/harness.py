"""Kafka Streams' own stores behind a pipe: build the Java harness once, start its JVM, ask it.

The Java side lies in `java/` beside this file and says what it answers. Its versions are pinned in
`java/pom.xml`; what Maven downloads and compiles goes to a cache directory of the caller's, so that
only the first build needs the network.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import re
import shutil
import subprocess
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.class_archive import QUICK

PROJECT = Path(__file__).parent / "java"
MAIN = "kstore.interop.Main"
JAVA_MAJOR = 17
JVM = ("-Xmx512m", *QUICK, "-Dfile.encoding=UTF-8")
BUILD_TIMEOUT_S = 600
#: The directory of the newer RocksDB in a cache.
NEWER = "newer"
#: What Maven says where a repository cannot be reached, as against a source that does not compile.
UNREACHABLE = re.compile(
    r"Could not (transfer|resolve|find artifact)|Unknown host|Connection (refused|timed out)"
    r"|No plugin found for prefix",
    re.IGNORECASE,
)


class HarnessUnavailableError(Exception):
    """This machine cannot run the harness; the text is the reason to skip with."""


class HarnessError(Exception):
    """The harness refused a request (an unknown operation or field), or its JVM died."""


class KafkaError(Exception):
    """What Kafka Streams threw.

    Attributes
    ----------
    name
        The exception's class, without its package.
    message
        Its message; empty where it has none.
    cause
        The exception below it as text, or None.
    """

    def __init__(self, name: str, message: str, cause: str | None) -> None:
        super().__init__(f"{name}: {message}" + (f" (caused by {cause})" if cause else ""))
        self.name = name
        self.message = message
        self.cause = cause


def build(cache: Path) -> str:
    """Compile the harness into `cache`, unless nothing changed, and return its classpath.

    Parameters
    ----------
    cache
        A directory that may outlive the session; made where it is missing. Two processes that share
        it take turns.

    Raises
    ------
    HarnessUnavailableError
        java, javac or mvn is missing or too old, or Maven cannot reach a repository.
    subprocess.CalledProcessError
        The sources do not compile; Maven's output is in the note.
    """
    require_java()
    cache.mkdir(parents=True, exist_ok=True)
    classpath, stamp = cache / "classpath", cache / "stamp"
    with (cache / "build.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        fingerprint = fingerprint_of(PROJECT)
        if not (stamp.exists() and stamp.read_text() == fingerprint):
            stamp.unlink(missing_ok=True)
            maven(cache, classpath)
            stamp.write_text(fingerprint)
    return f"{cache / 'build' / 'classes'}:{classpath.read_text().strip()}"


def require_java() -> None:
    """Refuse a machine without the java that Kafka Streams 4 needs, and its compiler."""
    java = shutil.which("java")
    if java is None:
        raise HarnessUnavailableError("java is not on the PATH")
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(\d+)', said)
    if version is None or int(version[1]) < JAVA_MAJOR:
        raise HarnessUnavailableError(f"java {JAVA_MAJOR} or newer is needed, not {said.strip()!r}")
    if shutil.which("javac") is None:
        raise HarnessUnavailableError("javac is not on the PATH: a JDK is needed, not a JRE alone")


def fingerprint_of(project: Path) -> str:
    """A hash of every source file's name and content."""
    digest = hashlib.sha256()
    for path in [project / "pom.xml", *sorted((project / "src").rglob("*.java"))]:
        content = path.read_bytes()
        digest.update(f"{path.relative_to(project)} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def maven(cache: Path, classpath: Path) -> None:
    """Download into `cache`/repository, compile into `cache`/build, write the classpath of both.

    The newer RocksDB goes into `cache`/newer.
    """
    for folder in ("build", NEWER):
        shutil.rmtree(cache / folder, ignore_errors=True)
    run_maven(
        PROJECT / "pom.xml",
        cache,
        f"-Dinterop.build={cache / 'build'}",
        f"-Dmdep.outputFile={classpath}",
        f"-Dartifact=org.rocksdb:rocksdbjni:{pinned('rocksdb.newer')}",
        f"-DoutputDirectory={cache / NEWER}",
        *("compiler:compile", "dependency:build-classpath", "dependency:copy"),
    )


def pinned(name: str) -> str:
    """A version that `java/pom.xml` has among its properties."""
    found = ElementTree.parse(PROJECT / "pom.xml").findtext(f"./{{*}}properties/{{*}}{name}")
    assert found, f"java/pom.xml has no {name}"
    return found


def with_newer_rocksdb(classpath: str) -> str:
    """The classpath that `build` returned, with the newer RocksDB in place of the release's."""
    classes, *jars = classpath.split(":")
    (newer,) = (Path(classes).parents[1] / NEWER).glob("rocksdbjni-*.jar")
    others = [jar for jar in jars if not Path(jar).name.startswith("rocksdbjni-")]
    assert len(others) == len(jars) - 1
    return ":".join([classes, *others, str(newer)])


def resolve_classpath(pom: Path, cache: Path, name: str) -> str:
    """The class path of a POM's dependencies, downloaded into `cache` once, under this name.

    Raises
    ------
    HarnessUnavailableError
        java or mvn is missing, or Maven cannot reach a repository.
    """
    require_java()
    cache.mkdir(parents=True, exist_ok=True)
    classpath, stamp = cache / f"{name}-classpath", cache / f"{name}-stamp"
    with (cache / "build.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (stamp.exists() and stamp.read_text() == pom.read_text()):
            run_maven(pom, cache, f"-Dmdep.outputFile={classpath}", "dependency:build-classpath")
            stamp.write_text(pom.read_text())
    return classpath.read_text().strip()


def run_maven(pom: Path, cache: Path, *arguments: str) -> None:
    """Run Maven's goals with `cache`/repository for what is downloaded.

    Raises
    ------
    HarnessUnavailableError
        mvn is missing, or cannot reach a repository.
    subprocess.CalledProcessError
        A goal fails; Maven's output is in the note.
    """
    mvn = shutil.which("mvn")
    if mvn is None:
        raise HarnessUnavailableError("mvn is not on the PATH")
    done = subprocess.run(
        [
            *(mvn, "--quiet", "--batch-mode", "--update-snapshots", "-Dstyle.color=never"),
            f"--file={pom}",
            f"-Dmaven.repo.local={cache / 'repository'}",
            *arguments,
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=BUILD_TIMEOUT_S,
        check=False,
    )
    if done.returncode == 0:
        return
    if UNREACHABLE.search(done.stdout):
        line = next(line for line in done.stdout.splitlines() if UNREACHABLE.search(line))
        raise HarnessUnavailableError(f"Maven cannot reach its repository: {line.strip()}")
    failure = subprocess.CalledProcessError(done.returncode, done.args, done.stdout)
    failure.add_note(done.stdout)
    raise failure


class Harness:
    """A running JVM. One store is open at a time; stores follow one another in the same JVM.

    Parameters
    ----------
    classpath
        What `build` returned.
    """

    def __init__(self, classpath: str) -> None:
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as the JVM)
        self._jvm = subprocess.Popen(
            ["java", *JVM, "-cp", classpath, MAIN],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            text=True,
            encoding="utf-8",
        )

    def send(self, request: dict[str, Any]) -> dict[str, Any]:
        """One request, and the reply as it is: {"result": …}, with "cause" where Kafka threw.

        Raises
        ------
        HarnessError
            The harness refused the request, or the JVM is gone; its standard error is in the text.
        """
        assert self._jvm.stdin is not None
        assert self._jvm.stdout is not None
        try:
            self._jvm.stdin.write(json.dumps(request) + "\n")
            self._jvm.stdin.flush()
            line = self._jvm.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            code = self._jvm.wait()
            self._complaints.seek(0)
            text = self._complaints.read().decode(errors="replace")
            raise HarnessError(f"the JVM ended with {code} at {request}:\n{text}")
        reply: dict[str, Any] = json.loads(line)
        if "error" in reply:
            raise HarnessError(reply["error"])
        return reply

    def call(self, op: str, **fields: Any) -> Any:
        """The result of one operation; what Kafka threw is raised.

        Raises
        ------
        KafkaError
            Kafka Streams threw.
        HarnessError
            See `send`.
        """
        reply = self.send({"op": op, **fields})
        result = reply["result"]
        if isinstance(result, dict) and "exception" in result:
            name = result["exception"].rpartition(".")[2]
            raise KafkaError(name, result["message"] or "", reply.get("cause"))
        return result

    @contextmanager
    def open(
        self, kind: str, name: str, directory: Path, **options: Any
    ) -> Iterator[dict[str, Any]]:
        """Open a store in a task directory, and close it at the end of the block.

        Parameters
        ----------
        kind
            kv_plain, kv_timestamped, kv_headers, versioned, window_plain, window_timestamped,
            window_headers, session_plain, session_headers, and those of windows and sessions with
            `_ordered` after the shape (`window_ordered_plain`, with `index=True` or not).
        name
            The store's name.
        directory
            The task directory, by any name; made where it is missing.
        **options
            `history_retention_ms` (versioned), `retention_ms`, `window_size_ms`,
            `retain_duplicates`, `segment_interval_ms` (Kafka's default if left out), `index`;
            `application` or `changelog` names the changelog topic, whose partition is 0
            (`changelog=None`: the store has none, and Kafka keeps no offsets for it);
            `exactly_once`; `logging`; `caching` with `cache_bytes`.

        Yields
        ------
        dict
            `committed_offset` (None: none, -4: unknown), `position` {topic: {partition: offset}}.
        """
        state: dict[str, Any] = self.call(
            "open", kind=kind, name=name, dir=str(directory), **options
        )
        try:
            yield state
        finally:
            self.call("close")

    def raw(self, directory: Path, name: str) -> list[dict[str, Any]]:
        """Every row of every database of a closed store, in the form of the manifests."""
        rows: list[dict[str, Any]] = self.call("raw", dir=str(directory), name=name)
        return rows

    def close(self) -> None:
        """End the input, and wait for the JVM; a store that is open is closed cleanly."""
        assert self._jvm.stdin is not None
        assert self._jvm.stdout is not None
        self._jvm.stdin.close()
        self._jvm.wait(timeout=60)
        self._jvm.stdout.close()
        self._complaints.close()
