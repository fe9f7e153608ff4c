"""Find write-ahead logs that must not be replayed, because an older log was truncated.

RocksDB begins a new log when a write buffer is full, and deletes the old log when the buffer is
flushed. A crash before the flush leaves both logs. If the crash truncated the old log, RocksDB
would replay the remaining rows of the old log, and then the whole new log. The rows that the
truncation removed would be missing, although the stored offsets count them as written.

Each batch in a log begins with the sequence number of its first row. The numbers are consecutive
from batch to batch, except that the numbers of ingested table files are missing. So there is a gap
if a log does not begin with the number after the end of the previous log. kstore does not replay
the logs after a gap. The database then contains exactly the rows that were committed before the
gap.
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
"""The first bytes of a batch, which are its first sequence number and its number of rows."""


def logs_beyond_gap(path: Path) -> list[Path]:
    """Return the paths of the logs after a gap, from the oldest to the newest."""
    logs = {int(log.stem): log for log in path.glob("*.log") if log.stem.isdecimal()}
    with suppress(OSError, UnknownEditError, ValueError, IndexError, struct.error):
        if not any(log.stat().st_size for log in logs.values()):
            return []  # as after each close, so most opens need not read the manifest here
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
        if first is None:  # if another log follows the empty log, the empty log was truncated
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
    """Return the sequence number that follows the last row of a log."""
    end = 0
    for record in records(log.read_bytes()):
        first, count = _BATCH.unpack_from(record)
        end = first + count
    return end


def set_aside(path: Path) -> None:
    """Rename the logs after a gap, so that RocksDB does not replay them, and log a warning."""
    for log in logs_beyond_gap(path):
        renamed = log.with_name(log.name + KEPT)
        log.rename(renamed)
        _log.warning(
            "rocksdb database %s: a write-ahead log before %s has lost its end, so kstore ignores "
            "the rows of this newer log. The file %s still contains these rows. The offsets of the "
            "store are those before the lost rows. Process the input again from these offsets",
            path,
            log.name,
            renamed.name,
        )
