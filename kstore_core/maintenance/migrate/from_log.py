"""The migration of a key-value store to a versioned store, with the history of its changelog."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from kstore_core.changelog import Changelog
from kstore_core.changelog.protocol import check_changelog
from kstore_core.changelog.whole import whole_end
from kstore_core.codec import decode_latest
from kstore_core.engine import Chunk
from kstore_core.errors import StateError
from kstore_core.formats import PLAIN, VERSIONED
from kstore_core.hints import command
from kstore_core.maintenance.migrate.contents import opened
from kstore_core.maintenance.migrate.converting import Converter
from kstore_core.maintenance.migrate.copying import Place
from kstore_core.maintenance.migrate.results import MigrateProgress, ProgressCallback
from kstore_core.offsets.entries import UNKNOWN, Entries
from kstore_core.restore.replay import RestoreProgress, first_offset
from kstore_core.restore.rows import Restored
from kstore_core.state import open_state
from kstore_core.tables.version_scans import LATEST_PREFIX

__all__ = ["check_log", "compare", "restore_versions"]


def check_log(source: Place, log: Changelog) -> None:
    """Check that the store contains all records of its changelog.

    The check succeeds if the store has no offset of the log.

    Raises
    ------
    TypeError
        ``log`` is not a changelog.
    SpecError
        The partition of the log is not from 0 to 2147483647, or its topic has no valid name.
    InconsistentStateError
        The log begins after the store's offset, or ends before the store's offset.
    StateError
        The log has records that the store does not contain yet.
    """
    check_changelog(log)
    with opened(*source) as old:
        stored = old.record.offsets.get((log.topic, log.partition))
    if stored is None or stored == UNKNOWN:
        return
    begin = first_offset(stored, log, source.spec.name)
    if begin < log.high_watermark and begin < whole_end(log, stored):
        raise StateError(
            f"the store {source.spec.name!r} contains the log {log.topic}-{log.partition} only up "
            f"to offset {stored}, but the last offset of the log is {log.high_watermark - 1}. So "
            "the store and the log cannot be compared. First restore the rest of the log with: "
            + command("restore", source.root, source.spec.name, options="--from LOGDIR")
        )


def restore_versions(
    source: Place, target: Place, log: Changelog, callback: ProgressCallback
) -> Restored:
    """Restore the versioned store from the log, and copy the metadata of the old store."""

    def listen(progress: RestoreProgress) -> None:
        done = progress.next_offset - progress.begin
        callback(MigrateProgress(source.spec.name, "copy", done, progress.end - progress.begin))

    with open_state(target.root, engine=target.engine, durability="power") as state:
        restored = state.restore(target.spec, log, listener=listen)
    with opened(*source) as old, opened(*target, writable=True) as new:
        offsets = {**old.record.offsets, **new.record.offsets}
        new.write(Entries(offsets or None, old.record.position, None, target.spec))
    return restored


def compare(source: Place, target: Place, callback: ProgressCallback) -> int:
    """Count the keys whose newest version differs from the value of the key in the old store.

    A value may differ if records of the log have descending times or were too late for the history.
    """
    plain = Converter(source.spec.format, PLAIN, source.spec.family)
    bare = Converter(target.spec.format, VERSIONED, target.spec.family)
    with opened(*source) as old, opened(*target) as new:
        values = _pairs(old.rows(), plain)
        versions = (
            (key[len(LATEST_PREFIX) :], decode_latest(row)[1])
            for key, row in _pairs(new.latest(LATEST_PREFIX), bare)
        )
        about, differing = old.about(), 0
        version = next(versions, None)
        done = 0
        for done, (key, value) in enumerate(values, 1):
            while version is not None and version[0] < key:
                differing += 1
                version = next(versions, None)
            if version is None or version[0] != key:
                differing += 1
            else:
                differing += version[1] != value
                version = next(versions, None)
            if done % 10_000 == 0:
                callback(MigrateProgress(source.spec.name, "verify", done, max(about, done)))
        callback(MigrateProgress(source.spec.name, "verify", done, done))
        if version is not None:
            differing += sum(1 for _ in chain([version], versions))
        return differing


def _pairs(chunks: Iterator[Chunk], converter: Converter) -> Iterator[tuple[bytes, bytes]]:
    for keys, values in chunks:
        yield from zip(keys, converter.rows(keys, values), strict=True)
