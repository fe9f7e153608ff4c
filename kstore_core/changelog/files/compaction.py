"""The compaction of a log. It removes superseded records and expired segments.

Of the records with equal keys only the last record stays, as with Kafka's log cleaner. Compaction
does not change the last segment, and it does not change the offsets or the order of records.

The first compaction that reads a tombstone stores a time in the tombstone's batch (Kafka's delete
horizon). Later compactions remove the tombstone after this time. A commit marker is a tombstone
too, but the last commit marker of a log is never removed.

The last batch of each rewritten segment stays, even if it has no records left, so that the segment
still ends at the offset where the next segment begins.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path

from kstore_core.changelog.files.segment import (
    DRAFT,
    MAX_OFFSET_DELTA,
    MERGED,
    Segment,
    batches,
    end_offset,
    heads,
    list_segments,
    merged_offsets,
    named,
    records,
)
from kstore_core.changelog.files.start import check_start, note_start
from kstore_core.changelog.files.tail import find_end
from kstore_core.changelog.marks import MARK_KEY, is_commit, marks_in
from kstore_core.changelog.topic import LogConfig
from kstore_core.codec import (
    BatchHead,
    RecordColumns,
    decode_record_columns,
    encode_compacted_batch,
)
from kstore_core.errors import CorruptionError
from kstore_core.system.directories import sync_directory
from kstore_core.system.interrupts import interruptible, uninterrupted

__all__ = ["Compacted", "compact", "tidy"]

_MAX_KEYS = 1_000_000
"""The approximate maximum number of keys in a pass. A pass keeps their last offsets in memory."""


@dataclass(frozen=True, slots=True)
class Compacted:
    """The numbers of records and bytes that a compaction has removed.

    Attributes
    ----------
    records : int
        The number of superseded records, expired records, and tombstones.
    bytes : int
        The size of the files before the compaction minus their size after it. The number is
        negative if the delete horizons that were added made the files larger.
    """

    records: int = 0
    bytes: int = 0

    def __add__(self, other: Compacted) -> Compacted:
        return Compacted(self.records + other.records, self.bytes + other.bytes)


def compact(directory: Path, active: Segment, config: LogConfig, now_ms: int) -> Compacted:
    """Compact all segments before the active segment, and remove the expired segments."""
    tidy(directory)
    _check_joints(directory, active)
    done = Compacted()
    if config.retention_ms is not None:
        done += _expire(directory, active, now_ms - config.retention_ms)
    if config.compact:
        end = _cleanable_end(directory, active, config.min_compaction_lag_ms, now_ms)
        done += _clean(directory, end, config, now_ms)
    return done


def tidy(directory: Path) -> None:
    """Finish or undo a compaction that a crash interrupted.

    Raises
    ------
    CorruptionError
        The compacted segment is damaged. The segments that it replaces were not removed.
    """
    for marker in directory.glob(f"{'[0-9]' * 20}.log{MERGED}"):
        draft = marker.with_name(marker.name.removesuffix(MERGED) + DRAFT)
        if not draft.exists():  # The crash came after the draft was renamed to its segment.
            target = Segment.at(directory, int(marker.name[:20]))
            _remove_merged(target, merged_offsets(marker))
        marker.unlink()
    for draft in directory.glob(f"*{DRAFT}"):
        draft.unlink()


def _remove_merged(target: Segment, offsets: list[int]) -> None:
    """Remove the segments that were merged into `target`, if `target` contains all of them.

    The call compares the end of `target` with the end of the newest merged segment. The call
    removes the newest merged segment last, so that the next call can compare again if this call is
    interrupted.
    """
    directory = target.path.parent
    left = [s for s in map(partial(Segment.at, directory), offsets) if s.path.exists()]
    if not left:
        return
    end = find_end(left[-1])[0].next_offset
    reached = find_end(target, verify=True)[0].next_offset if target.path.exists() else 0
    if reached < end:
        raise CorruptionError(
            f"the compacted segment {target.path} ends at offset {reached}, but the segments that "
            f"it replaces end at offset {end}. Nothing was changed; take the log from a copy, or "
            "restore the store from its source"
        )
    for segment in left:
        segment.path.unlink()


def _closed(directory: Path, active: Segment) -> list[Segment]:
    return [s for s in list_segments(directory) if s.base_offset < active.base_offset]


# ---------------------------------------------------------------- whole segments


def _check_joints(directory: Path, active: Segment) -> None:
    """Raise an error unless each segment ends where the next segment begins.

    A compaction would hide a gap between segments.

    Raises
    ------
    CorruptionError
    """
    segments = [*_closed(directory, active), active]
    check_start(directory, segments)
    for segment, after in pairwise(segments):
        _check_joint(segment, end_offset(segment), after.base_offset)


def _check_joint(segment: Segment, end: int, next_offset: int) -> None:
    """Raise CorruptionError unless a segment ends where the next segment begins."""
    if end != next_offset:
        raise CorruptionError(
            f"a file is missing or damaged: {segment.path} ends at offset {end}, but the next "
            f"segment begins at offset {next_offset}. Nothing was changed; take the file from a "
            "copy of the log, or restore the store from its source"
        )


def _expire(directory: Path, active: Segment, horizon_ms: int) -> Compacted:
    """Remove segments, oldest first, while all records of a segment are before ``horizon_ms``."""
    closed = _closed(directory, active)
    if not active.path.exists() or not active.path.stat().st_size:
        # The last batch of the log must stay, because it shows the log's end.
        closed = closed[:-1]
    done = Compacted()
    expired: list[Segment] = []
    for segment in closed:
        if _newest_ms(segment) >= horizon_ms:
            break
        count = sum(head.record_count for head in heads(segment))
        done += Compacted(count, segment.path.stat().st_size)
        expired.append(segment)
    if expired:
        rest = (s for s in list_segments(directory) if s.base_offset > expired[-1].base_offset)
        note_start(directory, next(rest).base_offset, synced=True)
        for segment in expired:
            segment.path.unlink()
    return done


def _newest_ms(segment: Segment) -> int:
    """Return the greatest timestamp of a segment's records in ms.

    If no record has a timestamp, return the modification time of the file.
    """
    newest = max((head.max_timestamp for head in heads(segment)), default=-1)
    return newest if newest >= 0 else int(segment.path.stat().st_mtime * 1000)


def _cleanable_end(directory: Path, active: Segment, lag_ms: int, now_ms: int) -> int:
    """Return the base offset of the first segment that must not be compacted yet."""
    end = _open_since(directory, active)
    if lag_ms:
        for segment in _closed(directory, active):
            if _newest_ms(segment) > now_ms - lag_ms:
                return min(segment.base_offset, end)
    return end


def _open_since(directory: Path, active: Segment) -> int:
    """Return the base offset of the segment in which an unfinished commit begins.

    If all commits are finished, return the base offset of the active segment. Readers may skip the
    records of an unfinished commit, so these records must not supersede other records.
    """
    since = active.base_offset
    newest = [active] if active.path.exists() else []
    for segment in [*_closed(directory, active), *newest][::-1]:
        begun = ended = False
        for columns in records(segment, 0):
            for _, mark_bytes in marks_in(columns):
                begun = not is_commit(mark_bytes)
                ended = ended or not begun
        if begun:
            since = min(since, segment.base_offset)
        if ended:
            break
    return since


# ---------------------------------------------------------------- records


def _clean(directory: Path, end: int, config: LogConfig, now_ms: int) -> Compacted:
    """Compact the segments that begin below an offset, in passes of about `_MAX_KEYS` keys."""
    done = Compacted()
    mapped = 0
    while fresh := [s for s in list_segments(directory) if mapped <= s.base_offset < end]:
        last: dict[bytes | None, int] = {}
        mapped = end
        for segment in fresh:
            if len(last) >= _MAX_KEYS:
                mapped = segment.base_offset
                break
            for columns in records(segment, 0):
                last.update(zip(columns.keys, columns.offsets, strict=True))
        cleanable = [s for s in list_segments(directory) if s.base_offset < mapped]
        for group in _groups(cleanable, mapped, config.segment_bytes):
            done += _rewrite(group, last, config, now_ms)
    return done


def _groups(
    segments: list[Segment], end: int, segment_bytes: int
) -> Iterator[list[tuple[Segment, int]]]:
    """Yield groups of adjacent segments, each with its end, that fit into one segment.

    Parameters
    ----------
    end : int
        The offset after the last segment.
    """
    group: list[tuple[Segment, int]] = []
    size = 0
    ends = [*(segment.base_offset for segment in segments[1:]), end]
    for segment, end in zip(segments, ends, strict=True):
        more = segment.path.stat().st_size
        if group and (
            size + more > segment_bytes or end - group[0][0].base_offset > MAX_OFFSET_DELTA
        ):
            yield group
            group, size = [], 0
        group.append((segment, end))
        size += more
    if group:
        yield group


def _rewrite(
    group: list[tuple[Segment, int]],
    last: dict[bytes | None, int],
    config: LogConfig,
    now_ms: int,
) -> Compacted:
    """Replace a group of segments by one segment with the remaining records."""
    target, *merged = (segment for segment, _ in group)
    size = sum(segment.path.stat().st_size for segment, _ in group)
    draft = target.path.with_name(target.path.name + DRAFT)
    marker = target.path.with_name(target.path.name + MERGED)
    with uninterrupted():
        try:
            with interruptible():
                gone, changed = _write_draft(draft, group, last, config, now_ms)
            if not (changed or merged):
                draft.unlink()
                return Compacted()
            if merged:
                _write_synced(marker, json.dumps([s.base_offset for s in merged]).encode())
            draft.replace(target.path)
        except BaseException:
            # The marker is removed first, because a marker without a draft means that the draft was
            # renamed.
            marker.unlink(missing_ok=True)
            draft.unlink(missing_ok=True)
            raise
        # A crash after this line leaves merged segments. Readers ignore them, because the marker
        # lists them, and `tidy` removes them.
        sync_directory(target.path.parent)
        for segment in merged:
            segment.path.unlink()
        marker.unlink(missing_ok=True)
        return Compacted(gone, size - target.path.stat().st_size)


def _write_draft(
    draft: Path,
    group: list[tuple[Segment, int]],
    last: dict[bytes | None, int],
    config: LogConfig,
    now_ms: int,
) -> tuple[int, bool]:
    """Write the remaining records of a group to a new file.

    Returns
    -------
    int
        The number of removed records.
    bool
        True if a batch changed.
    """
    gone = 0
    changed = False
    dropped: BatchHead | None = None
    with draft.open("wb") as out:
        for segment, next_offset in group:
            reached = segment.base_offset
            for head, data in batches(segment):
                reached = head.last_offset + 1
                with named(segment):
                    left, count = _remaining(head, data, last, config, now_ms)
                gone += count
                changed = changed or dropped is not None or left not in (data, None)
                dropped = head if left is None else None
                out.write(left or b"")
            # The draft would hide a gap from readers.
            _check_joint(segment, reached, next_offset)
        if dropped is not None:
            changed = changed or dropped.record_count > 0
            out.write(encode_compacted_batch(RecordColumns(), dropped))
        out.flush()
        os.fsync(out.fileno())
    return gone, changed


def _write_synced(path: Path, data: bytes) -> None:
    with path.open("wb") as out:
        out.write(data)
        out.flush()
        os.fsync(out.fileno())


def _remaining(
    head: BatchHead,
    data: bytes,
    last: dict[bytes | None, int],
    config: LogConfig,
    now_ms: int,
) -> tuple[bytes | None, int]:
    """Remove superseded records and expired tombstones from a batch.

    Returns
    -------
    bytes or None
        The remaining batch. It is the object `data` if the batch does not change, and None if no
        record remains.
    int
        The number of removed records.
    """
    if head.control:
        return data, 0
    columns = decode_record_columns(data, position=head.at)
    tombstones = columns.tombstones
    horizon = head.delete_horizon_ms
    over = horizon is not None and horizon <= now_ms
    mask = bytes(
        key is None
        or (offset >= last.get(key, offset) and not (over and tombstone and key != MARK_KEY))
        for key, offset, tombstone in zip(columns.keys, columns.offsets, tombstones, strict=True)
    )
    count = sum(mask)
    if not count:
        return None, len(mask)
    if not any(kept and tombstone for kept, tombstone in zip(mask, tombstones, strict=True)):
        horizon = None
    elif horizon is None:
        horizon = now_ms + config.delete_retention_ms
    if count == len(mask) and horizon == head.delete_horizon_ms:
        return data, 0
    left = columns.chosen(mask)
    return encode_compacted_batch(left, head, delete_horizon_ms=horizon), len(mask) - count
