"""The copying of a store to another format or engine, and the comparison of both stores."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from kstore_core.engine import Chunk, Engine
from kstore_core.errors import CorruptionError
from kstore_core.maintenance.migrate.contents import opened
from kstore_core.maintenance.migrate.converting import Converter, Lost
from kstore_core.maintenance.migrate.results import MigrateProgress, ProgressCallback
from kstore_core.offsets.entries import Entries, StoreRecord
from kstore_core.spec import StoreSpec

__all__ = ["Place", "copy", "losses", "verify"]


class Place(NamedTuple):
    """The location of a store (an engine and a state directory), and the store's spec."""

    engine: Engine
    root: Path
    spec: StoreSpec


def losses(source: Place, target: StoreSpec, callback: ProgressCallback) -> Lost:
    """Count the headers and timestamps that a copy would lose, without writing anything."""
    with opened(*source) as old:
        converter = Converter(source.spec.format, target.format, source.spec.family)
        for _ in _converted(
            old.rows(), converter, "count", old.about(), source.spec.name, callback
        ):
            pass
        return converter.lost


def copy(source: Place, target: Place, callback: ProgressCallback) -> tuple[int, Lost]:
    """Copy the rows and the metadata of a store.

    Return the numbers of copied rows, of dropped headers and of dropped timestamps.

    Raises
    ------
    FormatError
        A row does not have the format of the source.
    KeyTooLongError, StorageFullError
        The target cannot store a row.
    """
    count = 0

    def counted(chunks: Iterator[Chunk]) -> Iterator[Chunk]:
        nonlocal count
        for keys, values in chunks:
            count += len(keys)
            yield keys, values

    converter = Converter(source.spec.format, target.spec.format, source.spec.family)
    with opened(*source) as old, opened(*target, writable=True) as new:
        rows = _converted(old.rows(), converter, "copy", old.about(), source.spec.name, callback)
        new.load(counted(rows))
        record = old.record
        new.write(
            Entries(
                record.offsets or None,
                record.position,
                record.stream_time,
                target.spec,
                record.notes or None,
            ),
        )
    return count, converter.lost


def verify(source: Place, target: Place, callback: ProgressCallback) -> int:
    """Reopen the store and its copy, and compare their rows. Return the number of rows.

    Raises
    ------
    CorruptionError
        The copy differs from the store.
    """
    converter = Converter(source.spec.format, target.spec.format, source.spec.family)
    with opened(*source) as old, opened(*target) as new:
        _check_record(old.record, new.record, target.spec)
        rows = _converted(old.rows(), converter, "verify", old.about(), source.spec.name, callback)
        return _check_rows(rows, new.rows(), target.spec.name)


def _converted(
    chunks: Iterator[Chunk],
    converter: Converter,
    step: str,
    about: int,
    store: str,
    callback: ProgressCallback,
) -> Iterator[Chunk]:
    done = 0
    callback(MigrateProgress(store, step, 0, about))
    for keys, values in chunks:
        yield keys, converter.rows(keys, values)
        done += len(keys)
        callback(MigrateProgress(store, step, done, max(about, done)))


def _check_record(old: StoreRecord, new: StoreRecord, spec: StoreSpec) -> None:
    stored = new.spec
    if (
        stored is None
        or not stored.describes(spec)
        or replace(new, spec=None) != replace(old, spec=None)
    ):
        raise _differ(spec.name, "in its offsets, position, stream time or spec")


def _check_rows(ours: Iterator[Chunk], theirs: Iterator[Chunk], store: str) -> int:
    """Compare the rows of two scans, whose chunk sizes may differ. Return the number of rows."""
    count = 0
    keys: list[bytes] = []
    values: list[bytes] = []
    at = 0
    for wanted_keys, wanted in ours:
        begin = 0
        while begin < len(wanted_keys):
            if at == len(keys):
                keys, values = next(theirs, ([], []))
                at = 0
            size = min(len(keys) - at, len(wanted_keys) - begin)
            same = (
                keys[at : at + size] == wanted_keys[begin : begin + size]
                and values[at : at + size] == wanted[begin : begin + size]
            )
            if not (size and same):
                raise _differ(store, f"at or after the key {wanted_keys[begin]!r}")
            begin += size
            at += size
            count += size
    if at < len(keys) or next(theirs, None) is not None:
        raise _differ(store, "by additional rows after the last key")
    return count


def _differ(store: str, where: str) -> CorruptionError:
    return CorruptionError(
        f"the copy of the store {store!r} differs from the store {where}. Either another process, "
        "such as Kafka Streams, writes to the store, or the disk fails. The migration has not "
        "changed the store. Stop other processes that write to the store, and migrate again"
    )
