"""The check of single entries of the offsets namespace. This namespace has a store's metadata."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import cast

from kstore_core.engine import Chunk, Namespace
from kstore_core.errors import CorruptionError, FormatDowngradeError, SpecError
from kstore_core.maintenance.verify.rows import Fault
from kstore_core.offsets.entries import CLOSED, OPEN, STATUS, StoreRecord, read_record
from kstore_core.tables.segments.progress import decode_commit, decode_segments

__all__ = ["checked_entry", "joined", "read_entries"]


def checked_entry(key: bytes, value: bytes, store: str) -> tuple[StoreRecord, Fault | None]:
    """Return the metadata in an entry, and the fault of the entry or None."""
    try:
        record = read_record(cast("Namespace", _Entry(key, value)))
        if record.commit is not None:
            decode_commit(record.commit)
        if record.segments is not None:
            decode_segments(record.segments)
    except FormatDowngradeError as error:
        return StoreRecord(), Fault("entry", str(error), serious=False)
    except (CorruptionError, SpecError) as error:
        return StoreRecord(), Fault("entry", str(error))
    return record, _odd(key, value, record, store)


def _odd(key: bytes, value: bytes, record: StoreRecord, store: str) -> Fault | None:
    if key == STATUS and value not in (OPEN, CLOSED):
        return Fault("entry", f"the status of the store must be open or closed, not {value!r}")
    if record.spec is not None and record.spec.name != store:
        why = f"the stored spec belongs to another store, {record.spec.name!r}"
        return Fault("entry", why, serious=False)
    for (topic, partition), offset in record.offsets.items():
        if offset < -1 and (topic, partition) in record.known_offsets:
            why = f"the offset of {topic}-{partition} is {offset}, but it must not be negative"
            return Fault("entry", why)
    return None


def read_entries(namespace: Namespace, store: str) -> StoreRecord:
    """Return the metadata in all undamaged entries of a namespace."""
    return joined(
        checked_entry(key, value, store)[0]
        for keys, values in namespace.scan()
        for key, value in zip(keys, values, strict=True)
    )


def joined(records: Iterable[StoreRecord]) -> StoreRecord:
    """Return one object with the metadata of several entries of one namespace."""
    whole = StoreRecord()
    for record in records:
        whole.offsets |= record.offsets
        whole.notes |= record.notes
        whole.position = whole.position or record.position
        whole.spec = whole.spec or record.spec
        if record.stream_time is not None:
            whole.stream_time = record.stream_time
    return whole


class _Entry:
    """A stand-in for a namespace that has a single row."""

    def __init__(self, key: bytes, value: bytes) -> None:
        self._row: Chunk = [key], [value]

    def scan(self) -> Iterator[Chunk]:
        yield self._row
