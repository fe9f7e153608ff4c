"""Create and check the files of an LMDB environment.

LMDB reads its data file through a memory map. If the file is too short, the read of a missing page
kills the process (SIGBUS). So kstore checks the length of the file before LMDB reads the pages.
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
"""The prefix of temporary directories. The name of a store must not contain the prefix."""

_MAGIC = 0xBEEFC0DE
_WORDS = struct.Struct("16I")
_ATTEMPTS = 5
_LARGEST_PAGE = 65_536
_PAUSE_S = 0.002


def is_database(path: Path) -> bool:
    """Return True if the directory ``path`` contains the data file of an environment."""
    return (path / DATA).is_file()


def is_remains(path: Path) -> bool:
    """Return True if the directory has only the lock file of an environment, without its data."""
    return not is_database(path) and (path / LOCKS).is_file()


def lost(path: Path) -> CorruptionError:
    """Return the error for an environment that has lost its data file."""
    return CorruptionError(
        f"lmdb database {path} has lost its {DATA}. Nothing was changed. Put the file back "
        "from a copy, or rename the directory and restore the store from its changelog"
    )


def stored_format(path: Path) -> LMDBFormat:
    """Read the format of an environment from the first bytes of its data file.

    Raises
    ------
    CorruptionError
        The data file is not a file of LMDB, or has an unknown format.
    """
    with (path / DATA).open("rb") as file:
        head = file.read(_WORDS.size)
    words = _WORDS.unpack(head.ljust(_WORDS.size, b"\0"))
    version = next((b for a, b in pairwise(words) if a == _MAGIC), None)
    for form in FORMATS.values():
        if form.data_version == version:
            return form
    what = (
        "has no LMDB data"
        if version is None
        else f"is in LMDB's data format {version}, which kstore does not support"
    )
    raise CorruptionError(
        f"lmdb database {path}: {DATA} {what}. Nothing was changed. Put the file back from a copy, "
        "or rename the directory and restore the store from its changelog"
    )


def check_format(path: Path, wanted: LMDBFormat) -> None:
    """Raise SpecError if an environment does not have the format ``wanted``."""
    stored = stored_format(path)
    if stored is not wanted:
        raise SpecError(
            f"lmdb database {path} has the format {stored.name}, but the option format_version is "
            f"{wanted.name}. Open the database with options={{'format_version': '{stored.name}'}}"
        )


def data_bytes(native: Environment) -> int:
    """Return the length in bytes that the data file needs for its pages."""
    return (native.info()["last_pgno"] + 1) * native.stat()["psize"]


def check_length(path: Path, native: Environment) -> None:
    """Raise CorruptionError if pages in use are missing from the data file.

    Nothing except the first bytes of the file may be read before this check.

    LMDB does not write a page that a transaction has both allocated and freed. This engine extends
    the file after such a commit. If the process is killed before the extension, or another program
    writes the file, the file may be too short although no page in use is missing. So if the file is
    too short, this function checks every page, which is slow.
    """
    data = path / DATA
    for attempt in range(_ATTEMPTS):
        if attempt:
            time.sleep(_PAUSE_S)  # a writer may be about to extend the file
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
            f"lmdb database {path}: {DATA} has only {size} bytes, but needs {needed}: {faults[0]}. "
            "A read of the missing bytes would kill the process. Nothing was changed. Put the file "
            "back from a copy, or rename the directory and restore the store from its changelog"
        )


def page_faults(path: Path) -> list[str]:
    """Return a message for each fault in the pages of an environment.

    LMDB does not read the pages, because a damaged page might crash LMDB.

    Raises
    ------
    EngineLockedError
        A writer commits so often that the pages change during each check.
    """
    for _ in range(_ATTEMPTS):
        before = _metas(path)
        try:
            faults: list[str] = verify(str(path))
        except VerifyError as error:
            faults = [str(error)]
        if not faults or _metas(path) == before:  # otherwise a writer may have reused pages
            return [f"{DATA}: {fault}" for fault in faults]
    raise locked(
        path,
        None,
        "the pages change while they are checked. Check a checkpoint of the database instead",
    )


def _metas(path: Path) -> bytes:
    """Return the two meta pages of the data file. Each commit changes one of them."""
    with (path / DATA).open("rb") as file:
        return file.read(2 * _LARGEST_PAGE)


def make(path: Path, fill: Callable[[Path], None]) -> None:
    """Create an environment at ``path``, unless another process has created it meanwhile.

    ``fill`` writes the environment to a temporary directory, which is then renamed to ``path``. So
    a crash never leaves an incomplete environment.

    Raises
    ------
    CorruptionError
        The directory ``path`` contains files already.
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
    """Create a temporary directory, call ``fill(directory)``, and rename the directory to ``path``.

    Raises
    ------
    FileExistsError
        ``path`` exists and is not empty.
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
                raise FileExistsError(f"{path} exists already") from error
            raise
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise
    sync_directory(path.parent)


def clean_up(path: Path) -> None:
    """Remove the temporary directories for ``path`` that killed processes have left."""
    for aside in path.parent.glob(f"{_aside(path)}*"):
        shutil.rmtree(aside, ignore_errors=True)


def _aside(path: Path) -> str:
    """Return the prefix of temporary directories for ``path``.

    The prefix contains a hash of the store's name, because the name itself may be too long.
    """
    return f"{ASIDE}{hashlib.sha1(path.name.encode()).hexdigest()}-"
