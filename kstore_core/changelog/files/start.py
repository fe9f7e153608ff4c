"""The file with a log's first offset. It shows whether the log's first segment is missing.

The file ``.kstore.start`` has the offset, and the offset's checksum in hexadecimal digits. The
first write to a log creates the file, so a log that has this file and no whole batch has lost data.
Expiry updates the file. Kafka ignores the file, and logs that Kafka wrote do not have it.
"""

from __future__ import annotations

import os
from pathlib import Path

from kstore_core.changelog.files.segment import Segment
from kstore_core.changelog.files.tail import Rest, Tail
from kstore_core.codec.log.batch.checksum import crc32c
from kstore_core.errors import CorruptionError, InconsistentStateError
from kstore_core.system.directories import sync_directory

__all__ = [
    "START",
    "check_start",
    "check_written",
    "forget_start",
    "note_start",
    "noted_start",
    "start_fault",
    "written_fault",
]

START = ".kstore.start"


def noted_start(directory: Path) -> int | None:
    """Return the first offset from a log's start file, or None if the file cannot be read.

    The first segment must begin at this offset or at a lower offset.
    """
    try:
        text = (directory / START).read_bytes()
    except OSError:
        return None
    digits, _, checksum = text.partition(b" ")
    return int(digits) if digits.isdigit() and checksum == _checksum(digits) else None


def note_start(directory: Path, offset: int, *, synced: bool) -> None:
    """Write a log's first offset to its start file, which is replaced as a whole.

    Parameters
    ----------
    synced : bool
        If True, sync the file and the directory, so that the file survives a power cut.
    """
    digits = b"%d" % offset
    draft = directory / f"{START}.draft"
    with draft.open("wb") as file:
        file.write(digits + b" " + _checksum(digits))
        file.flush()
        if synced:
            os.fsync(file.fileno())
    draft.replace(directory / START)
    if synced:
        sync_directory(directory)


def forget_start(directory: Path) -> None:
    """Remove the start file of a log whose first write failed."""
    (directory / START).unlink(missing_ok=True)


def start_fault(directory: Path, segments: list[Segment]) -> str | None:
    """Return an error text if the first segment of a log is missing, else None."""
    # The caller has listed the segments before this read of the start file, because expiry updates
    # the file before it removes segments.
    start = noted_start(directory)
    if start is None or not segments or segments[0].base_offset <= start:
        return None
    return (
        f"the first file of the log {directory} is missing: the log was written from offset "
        f"{start} on, but begins at offset {segments[0].base_offset}, in {segments[0].path.name}"
    )


def written_fault(
    directory: Path, noted: int | None, segments: list[Segment], tail: Tail, rest: Rest
) -> str | None:
    """Return an error text if a log has no whole batch but may have lost records, else None.

    Another process may write to the log. So the caller must read the start file before it lists the
    segments, and list the segments before it searches for the tail.

    Parameters
    ----------
    noted : int or None
        The result of `noted_start`.
    segments : list of Segment
        The segments of the log.
    tail : Tail
        The end of the last whole batch.
    rest : Rest
        The bytes after this batch.
    """
    if tail.next_offset > (segments[0].base_offset if segments else 0):
        return None
    has = f"no whole batch, but {rest}" if rest else "no batch"
    if noted is not None:
        return f"records were written to the log {directory}, but the log now has {has}"
    if rest.kind == "zeros":
        return f"the log {directory} may have lost its records, because it has {has}"
    return None


def check_start(directory: Path, segments: list[Segment]) -> None:
    """Raise an error if the first segment of a log is missing.

    Raises
    ------
    CorruptionError
    """
    if why := start_fault(directory, segments):
        raise CorruptionError(
            f"{why}. Nothing was changed; take the missing file from a copy of the log. If you "
            f"deleted the file on purpose, also delete {directory / START}"
        )


def check_written(
    directory: Path, noted: int | None, segments: list[Segment], tail: Tail, rest: Rest
) -> None:
    """Raise an error if a log has lost all of its records, or may have lost them.

    Raises
    ------
    InconsistentStateError
    """
    if why := written_fault(directory, noted, segments, tail, rest):
        raise InconsistentStateError(
            f"{why}. Nothing was changed; take the files from a copy of the log. If you want a new "
            f"log instead, move {directory} away"
        )


def _checksum(digits: bytes) -> bytes:
    return b"%08x" % crc32c(digits)
