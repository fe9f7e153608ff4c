"""A simulation of a disk that cannot sync. It needs Linux on x86-64 or ARM, and no privileges.

In this process, every system call that should make data durable fails. The kernel filters the
system calls (seccomp), including the calls of C code and of other threads.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

__all__ = ["fail_syncs", "has_open_files"]

_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_SECCOMP = {"x86_64": 317, "aarch64": 277}
_CALLS: Mapping[str, Mapping[str, int]] = {
    "x86_64": {
        "fsync": 74, "fdatasync": 75, "syncfs": 306, "sync": 162, "msync": 26, "open": 2,
        "openat": 257, "write": 1, "pwrite64": 18, "writev": 20, "pwritev": 296, "pwritev2": 328,
    },
    "aarch64": {
        "fsync": 82, "fdatasync": 83, "syncfs": 267, "sync": 81, "msync": 227,
        "openat": 56, "write": 64, "pwrite64": 68, "writev": 66, "pwritev": 70, "pwritev2": 287,
    },
}  # fmt: skip

_LOAD, _EQUAL, _ANY_BIT, _RETURN = 0x20, 0x15, 0x45, 0x06
_ALLOW, _FAIL, _KILL = 0x7FFF0000, 0x00050000 | errno.EIO, 0x80000000
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
_MS_SYNC, _RWF_DSYNC_OR_SYNC = 4, 2 | 4
_NO_NEW_PRIVS, _SET_FILTER, _ALL_THREADS = 38, 1, 1

_Instruction = tuple[int, int, int, int]


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p)]


def fail_syncs() -> str | None:
    """Make every sync of this process fail with EIO from now on.

    The system call ``sync`` ends the process, because it cannot report an error. With the flags
    ``O_DSYNC`` or ``O_SYNC`` each write to a file is a sync. So a write to a file that is already
    open with these flags fails, and no file can be opened with these flags.

    Returns
    -------
    str or None
        The reason why the filter cannot be set; None if it was set.
    """
    machine = platform.machine()
    if sys.platform != "linux" or machine not in _CALLS:
        return f"syncs can fail only on Linux on x86-64 and ARM, not on {sys.platform} {machine}"
    filters = b"".join(struct.pack("=HBBI", *each) for each in _instructions(machine))
    program = _Program(len(filters) // 8, filters)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0) == 0:
        done = libc.syscall(_SECCOMP[machine], _SET_FILTER, _ALL_THREADS, ctypes.byref(program))
        if done == 0:
            return None
    return f"the kernel allows no filter of system calls: {os.strerror(ctypes.get_errno())}"


def has_open_files(root: Path) -> bool:
    """Return True if this process has opened or mapped a file in a directory for writing."""
    inside = f"{root.resolve()}/"
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            target, flags = str(descriptor.readlink()), _flags(int(descriptor.name))
        except FileNotFoundError:  # the descriptor of the listing itself
            continue
        if target.startswith(inside) and flags & os.O_ACCMODE != os.O_RDONLY:
            return True
    lines = Path("/proc/self/maps").read_text(errors="replace").splitlines()
    return any(inside in line and line.split()[1].startswith("rw-s") for line in lines)


def _flags(descriptor: int) -> int:
    lines = Path(f"/proc/self/fdinfo/{descriptor}").read_text().splitlines()
    return next(int(line.split()[1], 8) for line in lines if line.startswith("flags:"))


def _synchronous() -> list[int]:
    """Return the file descriptors whose every write is a sync."""
    found = []
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - names are numbers
        try:
            if _flags(int(name)) & os.O_DSYNC:
                found.append(int(name))
        except FileNotFoundError:
            continue
    return found


def _instructions(machine: str) -> list[_Instruction]:
    """Return the instructions of the filter, which allows all system calls except syncs."""
    calls = _CALLS[machine]
    made: list[_Instruction] = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, _ARCHITECTURES[machine]),
        (_RETURN, 0, 0, _ALLOW),
        (_LOAD, 0, 0, _NUMBER),
    ]

    def rule(name: str, body: Iterable[_Instruction]) -> None:
        instructions = [*body]
        if name in calls:
            made.append((_EQUAL, 0, len(instructions), calls[name]))
            made.extend(instructions)

    for name in ("fsync", "fdatasync", "syncfs"):
        rule(name, [(_RETURN, 0, 0, _FAIL)])
    rule("sync", [(_RETURN, 0, 0, _KILL)])
    rule("msync", _if(_ANY_BIT, 2, [_MS_SYNC]))
    rule("open", _if(_ANY_BIT, 1, [os.O_DSYNC]))
    rule("openat", _if(_ANY_BIT, 2, [os.O_DSYNC]))
    synchronous = _synchronous()
    for name in ("write", "pwrite64", "writev", "pwritev"):
        rule(name, _if(_EQUAL, 0, synchronous))
    rule("pwritev2", [*_if(_ANY_BIT, 5, [_RWF_DSYNC_OR_SYNC])[:-1], *_if(_EQUAL, 0, synchronous)])
    return [*made, (_RETURN, 0, 0, _ALLOW)]


def _if(test: int, argument: int, values: list[int]) -> list[_Instruction]:
    """Return instructions that fail a call if ``test`` holds for an argument and any value."""
    made: list[_Instruction] = [(_LOAD, 0, 0, _ARGUMENTS + 8 * argument)]
    for value in values:
        made += [(test, 0, 1, value), (_RETURN, 0, 0, _FAIL)]
    return [*made, (_RETURN, 0, 0, _ALLOW)]
