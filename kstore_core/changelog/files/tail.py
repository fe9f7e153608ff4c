"""The search for the last whole batch of a log, and for the bytes that follow this batch."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

from kstore_core.changelog.files.segment import (
    Segment,
    begun_before_zeros,
    ends_in_zeros,
    fault_of,
    heads,
    named,
    opened,
)
from kstore_core.codec import read_batch_head
from kstore_core.errors import CorruptionError, UnsupportedError
from kstore_core.system.directories import sync_directory

__all__ = ["CUT", "Rest", "Tail", "cut_rest", "cuts", "find_end"]

CUT = ".cut-"
"""The text after the segment's name in the name of a file of removed bytes; a number follows.

Before the first write, kstore moves the bytes after a segment's last whole batch to such a file.
"""

_CUT_NAME = re.compile(r"\d{20}\.log\.cut(-\d+)?")
_LENGTH_END = 12
_CHUNK_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Tail:
    """The end of the last whole batch of a segment.

    Attributes
    ----------
    segment : Segment
    position : int
        The position in the file, in bytes, at which the last whole batch ends.
    next_offset : int
        The offset after the last record of this batch.
    batch_position : int
        The position at which this batch begins. 0 if it is not known, or if there is no batch.
    """

    segment: Segment
    position: int
    next_offset: int
    batch_position: int = 0

    def is_in(self, file: int) -> bool:
        """Return True if the last whole batch is still at its position in a file.

        A compaction may have replaced the file in which the batch was found.
        """
        size = self.position - self.batch_position
        try:
            head = read_batch_head(os.pread(file, size, self.batch_position))
        except (CorruptionError, UnsupportedError):
            return False
        found = None if head is None else (head.size, head.last_offset + 1)
        return found == (size, self.next_offset)


@dataclass(frozen=True, slots=True)
class Rest:
    """The bytes after the last whole batch of a segment.

    Attributes
    ----------
    kind : {"none", "torn", "zeros", "damaged"}
        The kind of the bytes. "none" means that there are no bytes. "torn" means the beginning of a
        batch that was never committed. "zeros" means only zeros, or the beginning of a batch and
        then zeros, because a power cut leaves zeros in place of lost bytes. "damaged" means any
        other bytes.
    size : int
        The number of bytes.
    why : str
        A description of the damage if the kind is "damaged".
    begun : int
        The number of bytes before the zeros if the kind is "zeros".
    """

    kind: Literal["none", "torn", "zeros", "damaged"]
    size: int = 0
    why: str = ""
    begun: int = 0

    def __bool__(self) -> bool:
        return self.size > 0

    def __str__(self) -> str:
        if self.kind == "zeros":
            zeros = f"{self.size - self.begun} zero bytes, which a power cut leaves"
            return f"{self.begun} bytes of a batch and {zeros}" if self.begun else zeros
        return f"{self.size} bytes of an incomplete batch"

    def check(self, tail: Tail) -> None:
        """Raise an error if the bytes are damaged.

        Raises
        ------
        CorruptionError
            An interrupted write cannot have left these bytes.
        """
        if self.kind == "damaged":
            raise CorruptionError(
                f"{tail.segment.path}: the batch at byte {tail.position}, offset "
                f"{tail.next_offset}, is damaged, because {self.why}. Nothing was changed; take "
                "the file from a copy of the log, or restore the store from its source"
            )


def find_end(
    segment: Segment, after: Tail | None = None, *, verify: bool = False
) -> tuple[Tail, Rest]:
    """Return the end of a segment's last whole batch, and the bytes after this batch.

    Parameters
    ----------
    after : Tail, optional
        The result of an earlier search. If this end is still in the segment's file, the search
        begins there.
    verify : bool
        Check the checksums of all batches.

    Raises
    ------
    CorruptionError, FileNotFoundError
        A whole batch is damaged, or the file is missing; see `records`.
    """
    # A compaction may replace the file during the search. The search then goes on in the old file,
    # which has an end, too.
    with opened(segment) as file:
        begin = tail = Tail(segment, 0, segment.base_offset)
        if after is not None and after.segment == segment and after.is_in(file):
            tail = after
        # If a batch ends in zeros, only its checksum shows whether the whole batch was written.
        verify = verify or ends_in_zeros(file, os.fstat(file).st_size)
        while True:
            try:
                for head in heads(segment, tail.position, verify=verify, file=file):
                    tail = Tail(segment, head.at + head.size, head.last_offset + 1, head.at)
                rest = _rest_of(file, tail)
            except (CorruptionError, UnsupportedError):
                if not tail.position or tail.is_in(file):
                    raise
                rest = None
            if rest is not None and rest.kind != "damaged":
                return tail, rest
            if tail.position and not tail.is_in(file):
                tail = begin  # The writer has taken back an unfinished write.
            elif rest is not None:
                return tail, rest


def _rest_of(file: int, tail: Tail) -> Rest | None:
    """Return the bytes after a segment's last whole batch.

    Return None if a writer has added a whole batch, or cut off an incomplete one, since the search.
    The caller must then search again.
    """
    size = os.fstat(file).st_size - tail.position
    if size <= 0:
        return Rest("none")
    begun = begun_before_zeros(file, tail.segment, tail.position, tail.next_offset)
    rest = os.pread(file, size, tail.position) if begun is None else b""
    if os.fstat(file).st_size - tail.position < size:
        return None
    if begun is not None:
        # The offset and the length at the start of a batch may be zeros, too.
        is_head = size < _LENGTH_END and not any(tail.next_offset.to_bytes(8)[:size])
        return Rest("torn", size) if is_head else Rest("zeros", size, begun=begun)
    with named(tail.segment):
        if read_batch_head(rest, position=tail.position) is not None:
            return None
    why = fault_of(tail.segment, rest, tail.next_offset)
    return Rest("torn", len(rest)) if why is None else Rest("damaged", len(rest), why)


def cut_rest(tail: Tail) -> Path:
    """Move the bytes after a segment's last whole batch to the file `<segment>.cut-<n>`.

    The copy is synced before the segment is truncated. If a crash interrupts the move between these
    two steps, the next call finds the copy and does not copy the bytes again.

    Returns
    -------
    Path
        The file with the moved bytes, in the directory of the segment.
    """
    path = tail.segment.path
    with path.open("r+b") as file:
        numbers = sorted(_numbers(path))
        cut = path.with_name(f"{path.name}{CUT}{numbers[-1] if numbers else 0}")
        is_cut = os.fstat(file.fileno()).st_size <= tail.position
        if not (numbers and (is_cut or _same(file, tail.position, cut))):
            cut = path.with_name(f"{path.name}{CUT}{numbers[-1] + 1 if numbers else 1}")
            draft = path.with_name(path.name + CUT.rstrip("-"))
            try:
                _copy(file, tail.position, draft)
                draft.replace(cut)
            except BaseException:
                draft.unlink(missing_ok=True)
                raise
            sync_directory(path.parent)
        file.truncate(tail.position)
        os.fsync(file.fileno())
    return cut


def cuts(log: Path) -> list[Path]:
    """Return the files of bytes that were removed from the segments of a log.

    These bytes are copied before they are removed. If a crash interrupted the copying, the
    incomplete file is included.
    """
    return sorted(path for path in log.iterdir() if _CUT_NAME.fullmatch(path.name))


def _numbers(path: Path) -> Iterator[int]:
    """Yield the numbers of the ``.cut-<n>`` files of a segment."""
    for cut in cuts(path.parent):
        number = cut.name.removeprefix(path.name + CUT)
        if number.isdecimal():
            yield int(number)


def _same(file: IO[bytes], position: int, other: Path) -> bool:
    """Return True if `other` has the same content as `file` from `position` to its end."""
    file.seek(0, os.SEEK_END)
    if file.tell() - position != other.stat().st_size:
        return False
    with other.open("rb") as cut:
        return all(chunk == cut.read(len(chunk)) for chunk in _chunks(file, position))


def _copy(file: IO[bytes], position: int, draft: Path) -> None:
    """Copy a file from a position on. Chunks of zeros use no disk space in the copy."""
    with draft.open("wb") as out:
        for chunk in _chunks(file, position):
            if chunk.strip(b"\0"):
                out.write(chunk)
            else:
                out.seek(len(chunk), os.SEEK_CUR)
        out.truncate()
        out.flush()
        os.fsync(out.fileno())


def _chunks(file: IO[bytes], position: int) -> Iterator[bytes]:
    file.seek(position)
    while chunk := file.read(_CHUNK_BYTES):
        yield chunk
