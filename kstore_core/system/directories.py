"""Functions that create directories, and that sync directories to the disk."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
from pathlib import Path

from kstore_core.system.interrupts import uninterrupted

__all__ = ["make_directory", "more_files", "sync_directory"]


def make_directory(directory: Path, *, synced: bool) -> None:
    """Create a directory and its missing parents.

    Parameters
    ----------
    synced : bool
        If True, sync the parents of the new directories, or the parent of ``directory`` if no
        directory is new. The directories then survive a power cut. A parent that this user may
        not read is not synced.
    """
    made = [folder for folder in (directory, *directory.parents) if not folder.exists()]
    directory.mkdir(parents=True, exist_ok=True)
    if synced:
        for folder in made or [directory]:
            # This user may be allowed to enter a parent directory, but not to read it.
            with contextlib.suppress(PermissionError):
                sync_directory(folder.parent)


def more_files(error: OSError) -> str | None:
    """Return advice for the user if the error is that too many files are open, else None."""
    if error.errno not in (errno.EMFILE, errno.ENFILE):
        return None
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return (
        f"The limit of open files of this process is {allowed}. Raise the limit with ulimit -n, or "
        "close files and stores that you do not need"
    )


def sync_directory(directory: Path) -> None:
    """Sync a directory, so that its new and renamed files survive a power cut."""
    with uninterrupted():
        file = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(file)
        finally:
            os.close(file)
