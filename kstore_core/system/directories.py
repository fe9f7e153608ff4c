"""Make directories, and make their entries survive a power cut."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
from pathlib import Path

from kstore_core.system.interrupts import uninterrupted

__all__ = ["make_directory", "more_files", "sync_directory"]


def make_directory(directory: Path, *, synced: bool) -> None:
    """Make a directory and its missing parents; `synced`: they survive a power cut."""
    made = [folder for folder in (directory, *directory.parents) if not folder.exists()]
    directory.mkdir(parents=True, exist_ok=True)
    if synced:
        for folder in made or [directory]:
            with contextlib.suppress(
                PermissionError
            ):  # a parent that this user may enter, but not list
                sync_directory(folder.parent)


def more_files(error: OSError) -> str | None:
    """Return the remedy for too many open files; None for any other error."""
    if error.errno not in (errno.EMFILE, errno.ENFILE):
        return None
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return (
        f"The process may have {allowed} files open: allow more (ulimit -n), or close files and "
        "stores that are not needed"
    )


def sync_directory(directory: Path) -> None:
    """Make new and renamed files of a directory survive a power cut."""
    with uninterrupted():
        file = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(file)
        finally:
            os.close(file)
