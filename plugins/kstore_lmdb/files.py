"""The files of an environment. They are created here, and checked before LMDB maps them.

LMDB reads through a memory map. If the file is too short, the read of a missing page kills the
process (SIGBUS). So the length of a file is checked before its first page is read.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import shutil
import struct
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from lmdb import Environment
from lmdb.verify import VerifyError, verify

from kstore_core.errors import CorruptionError, SpecError
from kstore_core.system.directories import sync_directory
from kstore_lmdb.errors import locked
from kstore_lmdb.options import FORMATS, LMDBFormat

__all__ = [
    "ASIDE",
    "DATA",
    "LOCKS",
    "check_format",
    "check_length",
    "clean_up",
    "data_bytes",
    "is_database",
    "is_remains",
    "lost",
    "make",
    "page_faults",
    "place",
    "stored_format",
]

DATA = "data.mdb"
LOCKS = "lock.mdb"
ASIDE = "~"
"""The prefix of directories that are being made; no store's name contains it."""

_MAGIC = 0xBEEFC0DE
_WORDS = struct.Struct("16I")
_ATTEMPTS = 5
_LARGEST_PAGE = 65_536
_PAUSE_S = 0.002


def is_database(path: Path) -> bool:
    """Return True if this directory contains an environment."""
    return (path / DATA).is_file()


def is_remains(path: Path) -> bool:
    """Return True if the directory had an environment whose data is lost."""
    return not is_database(path) and (path / LOCKS).is_file()


def lost(path: Path) -> CorruptionError:
    """Return the error for an environment without its data."""
    return CorruptionError(
        f"lmdb database {path} has lost its {DATA}. Nothing was changed: put the file back "
        "from a copy, or rename the directory and restore the store from its changelog"
    )


def stored_format(path: Path) -> LMDBFormat:
    """Return the format of an environment, from the head of its file.

    Raises
    ------
    CorruptionError
        The file is not a file of LMDB, or its format is unknown.
    """
    with (path / DATA).open("rb") as file:
        head = file.read(_WORDS.size)
    words = _WORDS.unpack(head.ljust(_WORDS.size, b"\0"))
    version = next((b for a, b in pairwise(words) if a == _MAGIC), None)
    for form in FORMATS.values():
        if form.data_version == version:
            return form
    what = "has no LMDB data" if version is None else f"is in LMDB's data format {version}"
    raise CorruptionError(
        f"lmdb database {path}: {DATA} {what}. Nothing was changed: put the file back from a copy, "
        "or rename the directory and restore the store from its changelog"
    )


def check_format(path: Path, wanted: LMDBFormat) -> None:
    """Refuse an environment whose format differs from the options."""
    stored = stored_format(path)
    if stored is not wanted:
        raise SpecError(
            f"lmdb database {path} has the format {stored.name}, but the option format_version is "
            f"{wanted.name}. Open it with options={{'format_version': '{stored.name}'}}"
        )


def data_bytes(native: Environment) -> int:
    """Return the length that the data file needs for the pages in use."""
    return (native.info()["last_pgno"] + 1) * native.stat()["psize"]


def check_length(path: Path, native: Environment) -> None:
    """Refuse a file that lacks pages. Only the head of the file may be read before this check.

    A file may lack pages that were allocated and freed in one transaction. After such a commit this
    engine extends the file. If a process was killed before that, or another program wrote the file,
    the file is shorter. Then every page is checked, which is slow.

    Raises
    ------
    CorruptionError
        Pages are missing.
    """
    data = path / DATA
    for attempt in range(_ATTEMPTS):
        if attempt:
            time.sleep(_PAUSE_S)  # a writer may be about to extend it
        needed = data_bytes(native)
        size = data.stat().st_size
        if size >= needed:
            return
    try:
        faults = verify(str(path))
    except VerifyError as error:
        faults = [str(error)]
    if faults:
        raise CorruptionError(
            f"lmdb database {path}: {DATA} has {size} bytes of {needed}: {faults[0]}. Reading it "
            "would end the process. Nothing was changed: put the file back from a copy, or rename "
            "the directory and restore the store from its changelog"
        )


def page_faults(path: Path) -> list[str]:
    """Return the faults in the pages of an environment. LMDB itself is not used.

    Raises
    ------
    EngineLockedError
        A writer commits so often that no transaction can be checked.
    """
    for _ in range(_ATTEMPTS):
        before = _metas(path)
        try:
            faults: list[str] = verify(str(path))
        except VerifyError as error:
            faults = [str(error)]
        if not faults or _metas(path) == before:  # else a writer has reused the pages meanwhile
            return [f"{DATA}: {fault}" for fault in faults]
    raise locked(
        path, None, "its pages change while they are checked. Check a checkpoint of it instead"
    )


def _metas(path: Path) -> bytes:
    """Return the two meta pages, which name the pages in use."""
    with (path / DATA).open("rb") as file:
        return file.read(2 * _LARGEST_PAGE)


def make(path: Path, fill: Callable[[Path], None]) -> None:
    """Create an environment in a temporary directory by ``fill``, and rename it to ``path``.

    So ``path`` is never incomplete. If another process creates the environment first, that
    environment remains.

    Raises
    ------
    CorruptionError
        The directory has other files, such as those of an environment that has lost its data.
    """
    if path.is_dir() and any(path.iterdir()):
        raise lost(path)
    made = [folder for folder in path.parents if not folder.exists()]
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with contextlib.suppress(FileExistsError):
            place(path, fill)
        sync_directory(path.parent.parent)
    except BaseException:
        for folder in made:
            with contextlib.suppress(OSError):
                folder.rmdir()
        raise


def place(path: Path, fill: Callable[[Path], None]) -> None:
    """Create a directory next to ``path``, fill it by ``fill``, and rename it to ``path``.

    Raises
    ------
    FileExistsError
        ``path`` exists.
    """
    aside = path.with_name(f"{_aside(path)}{secrets.token_hex(4)}")
    aside.mkdir()
    try:
        fill(aside)
        for file in aside.iterdir():
            with file.open("rb") as opened:
                os.fsync(opened.fileno())
        sync_directory(aside)
        try:
            aside.rename(path)
        except OSError as error:
            if path.exists() and any(path.iterdir()):
                raise FileExistsError(f"{path} exists") from error
            raise
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise
    sync_directory(path.parent)


def clean_up(path: Path) -> None:
    """Remove the temporary directories of killed processes next to ``path``."""
    for aside in path.parent.glob(f"{_aside(path)}*"):
        shutil.rmtree(aside, ignore_errors=True)


def _aside(path: Path) -> str:
    """Return the prefix of temporary directories for ``path``: a hash, as names may be long."""
    return f"{ASIDE}{hashlib.sha1(path.name.encode()).hexdigest()}-"
