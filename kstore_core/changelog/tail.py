"""The end of a log: found, checked and, by its writer, mended."""

from __future__ import annotations

import os
from dataclasses import dataclass

from kstore_core.changelog.segment import Segment, heads, is_torn
from kstore_core.errors import CorruptionError

__all__ = ["Tail", "find_tail", "mend_tail"]


@dataclass(frozen=True, slots=True)
class Tail:
    """Where the last whole batch of a segment ends.

    Attributes
    ----------
    segment : Segment
    position : int
        Its bytes up to here are whole batches.
    next_offset : int
        The offset behind the last of them.
    """

    segment: Segment
    position: int
    next_offset: int


def find_tail(segment: Segment, after: Tail | None = None, *, verify: bool = False) -> Tail:
    """The end of a segment; what `after` says of the same segment is not looked at again.

    Raises
    ------
    CorruptionError, FileNotFoundError
        As `heads` does.
    """
    if after is None or after.segment != segment:
        after = Tail(segment, 0, segment.base_offset)
    position, next_offset = after.position, after.next_offset
    for head in heads(segment, position, verify=verify):
        position, next_offset = head.at + head.size, head.last_offset + 1
    return Tail(segment, position, next_offset)


def mend_tail(segment: Segment) -> Tail:
    """Check all batches of the last segment, and cut off one that was not written to its end.

    Such a batch was never committed. Zeros at the end, which some file systems leave after a power
    cut, are cut off too.

    Raises
    ------
    CorruptionError
        What is wrong is no torn tail. Nothing was changed.
    """
    tail = find_tail(segment, verify=True)
    if tail.position == segment.path.stat().st_size:
        return tail
    with segment.path.open("r+b") as file:
        file.seek(tail.position)
        rest = file.read()
        if rest.strip(b"\0") and not is_torn(rest, tail.next_offset):
            raise CorruptionError(
                f"{segment.path}: the batch at byte {tail.position}, offset {tail.next_offset}, is "
                "damaged: by its length it ends behind the file, but it was written whole, or a "
                "sound one follows. Nothing was changed; take the file from a copy of the log, or "
                "restore the store from its source"
            )
        file.truncate(tail.position)
        os.fsync(file.fileno())
    return tail
