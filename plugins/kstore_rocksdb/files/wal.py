"""Sequences of write-ahead logs. If a log before the last one has lost its end, find it.

RocksDB begins a new log when a write buffer is full, and keeps the old log until the buffer is
flushed. A crash meanwhile leaves both logs. If the older log has lost its end, RocksDB replays the
rest of it, and then the whole newer log. The rows between are then missing, although the offsets
of the newest batch count them as written.

Each batch begins with the sequence number of its first row, and the numbers of batches are
consecutive. If a log does not begin where the log before it ended, there is a gap. kstore does not
replay the logs after a gap, so the database has the rows that were committed before the gap.
"""

from __future__ import annotations

import logging
import struct
from contextlib import suppress
from pathlib import Path

from kstore_rocksdb.files.edits import HEADER, UnknownEditError, records
from kstore_rocksdb.files.manifest import Manifest, read_manifest
from kstore_rocksdb.files.readonly import KEPT

__all__ = ["logs_beyond_gap", "set_aside"]

_log = logging.getLogger("kstore_core")
_BATCH = struct.Struct("<QI")
"""The head of a batch: its first sequence number and its number of rows."""


def logs_beyond_gap(path: Path) -> list[Path]:
    """Return the logs of a database after a gap, oldest first."""
    logs = {int(log.stem): log for log in path.glob("*.log") if log.stem.isdecimal()}
    with suppress(OSError, UnknownEditError, ValueError, IndexError, struct.error):
        manifest = read_manifest(path)
        needed = [logs[number] for number in sorted(logs) if number >= manifest.log_number]
        return needed[_gap(needed, manifest) :]
    return []


def _gap(logs: list[Path], manifest: Manifest) -> int:
    """Return the index of the first log after a gap, or the number of logs if there is no gap."""
    next_sequence = manifest.last_sequence + 1
    is_cut = False
    for index, log in enumerate(logs):
        first = _first_sequence(log)
        if first is None:  # only the last log may be empty
            is_cut = True
            continue
        lost = range(next_sequence, first)
        if is_cut or len(lost) > len(manifest.ingested) or not manifest.ingested.issuperset(lost):
            return index
        if index + 1 < len(logs):
            next_sequence = _end(log)
    return len(logs)


def _first_sequence(log: Path) -> int | None:
    """Return the sequence number of the first row of a log, or None if it has no row."""
    with log.open("rb") as file:
        head = file.read(HEADER + _BATCH.size)
    if len(head) < HEADER + _BATCH.size or not any(head):
        return None
    first: int = _BATCH.unpack_from(head, HEADER)[0]
    return first


def _end(log: Path) -> int:
    """Return the sequence number of the last row of a log, plus 1."""
    end = 0
    for record in records(log.read_bytes()):
        first, count = _BATCH.unpack_from(record)
        end = first + count
    return end


def set_aside(path: Path) -> None:
    """Rename the logs after a gap, so that RocksDB does not replay them. Nothing is deleted."""
    for log in logs_beyond_gap(path):
        renamed = log.with_name(log.name + KEPT)
        log.rename(renamed)
        _log.warning(
            "rocksdb database %s: a write-ahead log before %s has lost its end, so later rows are "
            "ignored; %s still has them. The offsets are those of the rows committed before: "
            "process the input again from there",
            path,
            log.name,
            renamed.name,
        )
