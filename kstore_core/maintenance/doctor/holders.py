"""The processes that hold locks on files of a state directory, as ``/proc`` lists them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

__all__ = ["Holder", "below", "holders", "open_files"]

_LOCKS = Path("/proc/locks")
_PROCESSES = Path("/proc")


class Holder(NamedTuple):
    """A process that holds a lock on a file.

    Attributes
    ----------
    file : Path
        The locked file.
    pid : int
        The id of the process; 0 if unknown, for example if it runs in another container.
    command : str
        The name of the process; empty if unknown.
    """

    file: Path
    pid: int
    command: str

    def __str__(self) -> str:
        if not self.pid:
            return "a process that is not visible on this machine or in this container"
        return f"process {self.pid}" + (f" ({self.command})" if self.command else "")


def holders(files: Iterable[Path]) -> list[Holder]:
    """Return the processes that hold locks on these files.

    The list is empty if ``/proc/locks`` cannot be read.
    """
    known = {}
    for file in files:
        with suppress(OSError):
            status = file.stat()
            device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}"
            known[f"{device}:{status.st_ino}"] = file
    try:
        lines = _LOCKS.read_text().splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        # A line is "1: POSIX  ADVISORY  WRITE 4711 fe:00:262158 0 EOF". A process that waits for a
        # lock has "->" as its second field.
        fields = line.split()
        if len(fields) >= 8 and fields[1] != "->" and fields[5] in known:
            pid = max(int(fields[4]), 0)
            found.append(Holder(known[fields[5]], pid, _command(pid)))
    return sorted(set(found))


def open_files() -> Iterator[str]:
    """Yield the paths of the open files of all processes that this user can inspect."""
    for process in _PROCESSES.glob("[0-9]*"):
        with suppress(OSError):
            for descriptor in os.scandir(f"{process}/fd"):
                with suppress(OSError):
                    yield os.readlink(descriptor.path)  # noqa: PTH115 - there may be very many


def _command(pid: int) -> str:
    try:
        return (_PROCESSES / str(pid) / "comm").read_text().strip()
    except OSError:
        return ""


def below(root: Path) -> Iterator[Path]:
    """Yield all files and directories below ``root``.

    A writer may delete a file or directory before the caller uses its path.
    """
    # Unlike Path.rglob, os.walk skips a directory that a writer has just deleted.
    for folder, directories, files in os.walk(root):
        for name in (*directories, *files):
            yield Path(folder, name)
