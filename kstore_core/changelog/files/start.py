"""The recorded start of a log, by which a missing first file is found.

``.kstore.start`` has the offset, and its checksum in hexadecimal digits. The first write makes the
file, so a log that has it has a whole batch. Expiry updates it. Kafka ignores it, and a log that
Kafka wrote has none.
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
    """The recorded offset, at or before which the log begins; None if there is no legible one."""
    try:
        text = (directory / START).read_bytes()
    except OSError:
        return None
    digits, _, checksum = text.partition(b" ")
    return int(digits) if digits.isdigit() and checksum == _checksum(digits) else None


def note_start(directory: Path, offset: int, *, synced: bool) -> None:
    """Record the start of a log; `synced`: the record survives a power cut."""
    digits = b"%d" % offset
    with (directory / START).open("wb") as file:
        file.write(digits + b" " + _checksum(digits))
        file.flush()
        if synced:
            os.fsync(file.fileno())
    if synced:
        sync_directory(directory)


def forget_start(directory: Path) -> None:
    """Remove the recorded start of a log whose first write failed."""
    (directory / START).unlink(missing_ok=True)


def start_fault(directory: Path, segments: list[Segment]) -> str | None:
    """Return the reason why a log's first offset is wrong; None if it is right or unknown."""
    start = noted_start(directory)  # after the segments were listed: expiry updates it first
    if start is None or not segments or segments[0].base_offset <= start:
        return None
    return (
        f"{directory} begins at offset {segments[0].base_offset}, in {segments[0].path.name}, but "
        f"was written from {start} on: the first file is missing"
    )


def written_fault(
    directory: Path, noted: int | None, segments: list[Segment], tail: Tail, rest: Rest
) -> str | None:
    """Return the reason why a log without a whole batch has lost records; None if it has not.

    Parameters
    ----------
    noted : int or None
        The result of `noted_start` before the segments were listed.
    segments : list of Segment
        Listed before the end was determined: a writer may move the end.
    """
    if tail.next_offset > (segments[0].base_offset if segments else 0):
        return None
    has = f"no whole batch, but {rest}" if rest else "no batch"
    if noted is not None:
        return f"{directory} has {has}, but records were written to it"
    if rest.kind == "zeros":
        return f"{directory} has {has}: it is unknown whether records were written to it"
    return None


def check_start(directory: Path, segments: list[Segment]) -> None:
    """Refuse a log whose first file is missing.

    Raises
    ------
    CorruptionError
    """
    if why := start_fault(directory, segments):
        raise CorruptionError(
            f"{why}. Nothing was changed; take it from a copy of the log. If these records were "
            f"deleted on purpose, delete {directory / START}"
        )


def check_written(
    directory: Path, noted: int | None, segments: list[Segment], tail: Tail, rest: Rest
) -> None:
    """Refuse a log that has lost all of its records.

    Raises
    ------
    InconsistentStateError
    """
    if why := written_fault(directory, noted, segments, tail, rest):
        raise InconsistentStateError(
            f"{why}. Nothing was changed; take its files from a copy of the log. To begin a new "
            f"log, move {directory} away"
        )


def _checksum(digits: bytes) -> bytes:
    return b"%08x" % crc32c(digits)
