"""Write-ahead logs that follow one another: whether one before the last has lost its end.

RocksDB begins a new log when a write buffer is full, and keeps the one before until the buffer is
flushed. A process or a machine that ends meanwhile leaves both. If the older one has lost its end,
RocksDB replays what is left of it and then all of the newer one: rows in the middle are missing,
and the offsets, which the newest batch has, count them.

Each batch begins with the sequence number of its first row, and the numbers of batches follow one
another. So a log that does not go on where the one before it ended lies beyond a gap, and it is not
replayed: what remains is what was committed before the gap.
"""

from __future__ import annotations

import logging
import struct
from contextlib import suppress
from pathlib import Path

from kstore_rocksdb.edits import HEADER, UnknownEditError, records
from kstore_rocksdb.manifest import Manifest, read_manifest
from kstore_rocksdb.readonly import KEPT

__all__ = ["logs_beyond_gap", "set_aside"]

_log = logging.getLogger("kstore_core")
_BATCH = struct.Struct("<QI")
"""The head of a batch: its first sequence number, and how many rows it has."""


def logs_beyond_gap(path: Path) -> list[Path]:
    """The logs of a database that do not go on where the ones before them end, oldest first."""
    logs = {int(log.stem): log for log in path.glob("*.log") if log.stem.isdecimal()}
    with suppress(OSError, UnknownEditError, ValueError, IndexError, struct.error):
        manifest = read_manifest(path)
        needed = [logs[number] for number in sorted(logs) if number >= manifest.log_number]
        return needed[_gap(needed, manifest) :]
    return []


def _gap(logs: list[Path], manifest: Manifest) -> int:
    """Index of the first log beyond a gap; how many there are where there is none."""
    next_sequence = manifest.last_sequence + 1
    is_cut = False
    for index, log in enumerate(logs):
        first = _first_sequence(log)
        if first is None:  # only the last one may be empty
            is_cut = True
            continue
        lost = range(next_sequence, first)
        if is_cut or len(lost) > len(manifest.ingested) or not manifest.ingested.issuperset(lost):
            return index
        if index + 1 < len(logs):
            next_sequence = _end(log)
    return len(logs)


def _first_sequence(log: Path) -> int | None:
    """The sequence number of the first row of a log; None where it has none."""
    with log.open("rb") as file:
        head = file.read(HEADER + _BATCH.size)
    if len(head) < HEADER + _BATCH.size or not any(head):
        return None
    first: int = _BATCH.unpack_from(head, HEADER)[0]
    return first


def _end(log: Path) -> int:
    """The sequence number behind that of the last row of a log."""
    end = 0
    for record in records(log.read_bytes()):
        first, count = _BATCH.unpack_from(record)
        end = first + count
    return end


def set_aside(path: Path) -> None:
    """Rename the logs beyond a gap, so that RocksDB does not replay them; nothing is deleted."""
    for log in logs_beyond_gap(path):
        kept = log.with_name(log.name + KEPT)
        log.rename(kept)
        _log.warning(
            "rocksdb database %s: a write-ahead log before %s has lost its end, so what came later "
            "does not count; %s keeps it. The offsets are those of what was committed before: "
            "process the input again from there",
            path,
            log.name,
            kept.name,
        )
