"""A file system that is small."""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

import pytest


@pytest.fixture
def tiny_disk(tmp_path: Path):  # type: ignore[no-untyped-def]
    """A file system of 24 MiB, where this process may mount one."""
    if not sys.platform.startswith("linux"):
        pytest.skip("mounts a tmpfs")
    path = tmp_path / "tiny"
    path.mkdir()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"none", os.fsencode(path), b"tmpfs", 0, b"size=24m") != 0:
        pytest.skip(f"cannot mount a tmpfs: {os.strerror(ctypes.get_errno())}")
    yield path
    libc.umount2(os.fsencode(path), 2)
