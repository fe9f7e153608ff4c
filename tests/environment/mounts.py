"""Programs in a mount namespace of their own, on a disk that is small or cannot be written.

The mount goes with the program. It needs root, or a kernel that gives users namespaces.
"""

from __future__ import annotations

import functools
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.places import ROOT


def on_a_small_disk(directory: Path, call: str, *, size: str = "24m") -> str:
    """Run ``call``, of tests.environment.programs, with a tmpfs of this size at ``directory``."""
    return _run(f"mount -t tmpfs -o size={size} none {shlex.quote(str(directory))}", call)


def on_a_read_only_mount(directory: Path, call: str) -> str:
    """The same with ``directory`` as it is, mounted read-only."""
    at = shlex.quote(str(directory))
    return _run(f"mount --bind {at} {at} && mount -o remount,ro,bind {at}", call)


def without_privileges(call: str) -> str:
    """The same as somebody whom the modes of files hold back, as they do not root."""
    if os.geteuid() != 0:
        return _output(_python(call))
    gone = "-dac_override,-dac_read_search"
    command = ["setpriv", f"--bounding-set={gone}", f"--inh-caps={gone}"]
    probe = subprocess.run([*command, "true"], capture_output=True, text=True, check=False)
    if probe.returncode:
        pytest.skip(f"this is root and cannot be less: {probe.stderr.strip()}")
    return _output([*command, *_python(call)])


def _run(mount: str, call: str) -> str:
    namespace, reason = _namespace()
    if namespace is None:
        pytest.skip(f"cannot mount anything: {reason}")
    return _output([*namespace, "sh", "-c", f"{mount} && exec {shlex.join(_python(call))}"])


def _python(call: str) -> list[str]:
    return [sys.executable, "-c", f"from tests.environment.programs import *; {call}"]


def _output(command: list[str]) -> str:
    paths = os.pathsep.join(filter(None, [str(ROOT), *sys.path]))
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": paths},
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


@functools.cache
def _namespace() -> tuple[list[str] | None, str]:
    """The command that makes a namespace where one can mount, or why there is none."""
    reason = "no namespaces here"
    for options in (["--mount"], ["--user", "--map-root-user", "--mount"]):
        command = ["unshare", *options]
        try:
            probe = subprocess.run(
                [*command, "mount", "-t", "tmpfs", "none", "/mnt"],
                capture_output=True,
                text=True,
                check=False,
            )
        except OSError as error:
            return None, str(error)
        if probe.returncode == 0:
            return command, ""
        reason = probe.stderr.strip()
    return None, reason
