"""The checks of a state directory that do not open its stores.

The checks examine locks, leftover files, disk space, permissions, segment names and file
descriptors.
"""

from __future__ import annotations

import json
import os
import re
import resource
import shlex
import shutil
import tempfile
from collections.abc import Iterator
from os.path import lexists
from pathlib import Path

from kstore_core.engine import Engine
from kstore_core.errors import InconsistentStateError
from kstore_core.hints import command
from kstore_core.maintenance.doctor.holders import below, holders, open_files
from kstore_core.maintenance.verify import Finding, Place, Severity
from kstore_core.state.migration_note import places, read_plan
from kstore_core.system.lock import LOCK_FILE, lock_fault, recorded_engine
from kstore_core.tables.segments.children import max_open
from kstore_core.tables.segments.names import name_of

__all__ = ["at", "disk", "files_of", "leftovers", "limits", "lock_file", "locks", "permissions",
           "remove"]  # fmt: skip

_LEAST_FREE_SHARE = 0.05
_LEAST_FREE_BYTES = 1 << 30
_DESCRIPTORS_PER_DATABASE = 8
"""An estimate of the file descriptors that one open database needs."""

_SCRATCH = re.compile(r"kstore-(read|verify)-[a-z0-9_]{8}")
_NAMED = 3
_SEGMENT = re.compile(r"[.:-][0-9]+")
_LEGACY = re.compile(r"[:-][0-9]+")


def at(
    severity: Severity, what: str, why: str, remedy: str = "", store: str = "", segment: str = ""
) -> Finding:
    """Return a finding about a store, or about the whole directory if ``store`` is empty."""
    return Finding(severity, what, why, Place(store, segment or None), remedy)


def _quote(path: Path) -> str:
    """Quote a path for a shell, so that the user can paste the printed command."""
    return shlex.quote(str(path))


def remove(*entries: Path) -> str:
    """Return the shell command that removes these files and directories."""
    return f"rm -r {' '.join(map(_quote, entries))}"


def files_of(engine: Engine, root: Path, store: str) -> Path | None:
    """Return the directory that contains the files of this store and of no other store.

    Return None if ``root`` has no such directory. The result is never a directory in which an
    engine stores several stores, and never a directory into which a quarantined store was moved.
    """
    alone, parent = root / engine.name / store, root / store
    if alone.is_dir():
        return alone
    if not parent.is_dir():
        return None
    segments = (name.removeprefix(store) for name in engine.children(root, store))
    named = any(map(_SEGMENT.fullmatch, segments))
    return parent if named or store in engine.parents(root) else None


def locks(root: Path) -> Iterator[Finding]:
    """Report running and killed writers, and a directory at the path of the lock file."""
    lock = root / LOCK_FILE
    if lock.is_dir():
        why = f"{lock} is a directory, so no process can open {root} for writing"
        moved = lock.with_name(f"{LOCK_FILE}.moved")
        remedy = (
            "move the directory away, so that the next writer can make a lock file: "
            f"mv {_quote(lock)} {_quote(moved)}"
        )
        yield at("finding", "lock", why, remedy)
    names = (".lock", LOCK_FILE)
    databases = [file for file in below(root) if file.name in ("LOCK", "data.mdb")]
    held = holders([*(root / name for name in names), *databases])
    for holder in held:
        file = holder.file.relative_to(root)
        what = "the state directory" if file.name in names else "the database"
        opened = f"Kafka Streams has {what}" if file.name == ".lock" else f"{what} is"
        yield at("note", "lock", f"{file} is locked, because {opened} open for writing in {holder}")
    try:
        pid = json.loads((root / LOCK_FILE).read_bytes()).get("pid")
    except (OSError, ValueError, AttributeError):
        return
    if pid is not None and not any(holder.file.name == LOCK_FILE for holder in held):
        yield at(
            "note",
            "lock",
            f"{LOCK_FILE} names process {pid}, which was killed before it closed the directory. No "
            "action is needed, because the next writer takes the lock",
        )


def lock_file(root: Path, engine: Engine) -> Iterator[Finding]:
    """Report a lock file that does not name the engine of the stores."""
    fault, recorded = lock_fault(root), recorded_engine(root)
    if fault is None and recorded != engine.name:
        fault = f"names the engine {recorded!r}"
    if fault is not None and not (root / LOCK_FILE).is_dir():  # `locks` reports a directory
        why = (
            f"{LOCK_FILE} {fault}, but must name {engine.name!r}, the engine of the stores. No "
            "action is needed, because the next writer writes the file again"
        )
        yield at("note", "lock file", why)


def leftovers(root: Path) -> Iterator[Finding]:
    """Report files that interrupted work has left, but not the files of a running writer."""
    yield from _migrations(root)
    if not holders([root / LOCK_FILE]):
        yield from _of_writers(root)
    for entry in sorted(root.iterdir()):
        name = entry.name
        if ".set-aside-" in name:
            why = f"{entry} is a store that was set aside"
            yield at("note", "set aside", why, f"inspect it with: {command('inspect', entry)}")
        elif name.startswith(".checkpoint") and entry.is_file():
            yield at(
                "note",
                "legacy",
                f"{entry} has offsets in a format of Kafka Streams before 4.3, and kstore does not "
                "read the file. A store without stored offsets is restored from the start of its "
                "changelog",
            )
        elif name.endswith(".position") and entry.is_file():
            why = f"{entry} has the position of a store in a format of older Kafka Streams versions"
            yield at("note", "legacy", f"{why}; kstore does not read the file")
    yield from _scratch()


def _of_writers(root: Path) -> Iterator[Finding]:
    for pattern, what in (
        (".kstore-dropped~", "has expired segments whose deletion was interrupted"),
        (".kstore-restore-*", "has rows that an interrupted restore spilled to disk"),
        ("lmdb/~*", "is an unfinished LMDB environment"),
    ):
        for entry in sorted(root.glob(pattern)):
            yield at("finding", "leftover", f"{entry} {what}", remove(entry))


def _scratch() -> Iterator[Finding]:
    """Report temporary directories that killed readers of any state directory have left."""
    temporary = Path(tempfile.gettempdir()).resolve()
    left = [entry for entry in sorted(temporary.iterdir()) if _SCRATCH.fullmatch(entry.name)]
    if left:
        inside = f"{temporary}/"
        paths = (file.removeprefix(inside) for file in open_files() if file.startswith(inside))
        used = {path.partition("/")[0] for path in paths}
        left = [entry for entry in left if entry.name not in used]
    if left:
        why = f"{len(left)} directories in {temporary} were left by readers that were killed"
        yield at("note", "leftover", why, remove(*left[:_NAMED]) + " …" * (len(left) > _NAMED))


def _migrations(root: Path) -> Iterator[Finding]:
    try:
        plan = read_plan(root)
    except InconsistentStateError as error:
        yield at("finding", "migration", str(error))
        return
    old = places(root).old
    if plan is not None:
        why = f"a migration of {', '.join(plan.stores)} is unfinished"
        yield at("finding", "migration", why, command("migrate", root, plan.stores[0]))
    elif old.is_dir():
        for entry in sorted(old.iterdir()):
            why = f"{entry} has the files that the store had before its migration"
            drop = command("migrate", root, entry.name, options="--drop-old")
            remedy = f"when you no longer need these files, delete them with: {drop}"
            yield at("note", "migration", why, remedy, entry.name)


def disk(root: Path) -> Iterator[Finding]:
    """Report a nearly full disk of the state directory or of the temporary directory.

    Readers copy files to the temporary directory.
    """
    temporary = Path(tempfile.gettempdir())
    for directory, use in {root: "the stores", temporary: "the copies of readers"}.items():
        usage = shutil.disk_usage(directory)
        if usage.free < min(usage.total * _LEAST_FREE_SHARE, _LEAST_FREE_BYTES):
            mib = usage.free // (1 << 20)
            why = (
                f"the disk of {directory} has only {mib} MiB free of "
                f"{usage.total // (1 << 20)} MiB; the directory contains {use}"
            )
            remedy = "free some space; on a full disk a commit raises StorageFullError"
            yield at("finding", "disk", why, remedy)


def permissions(root: Path) -> Iterator[Finding]:
    """Report the directories that the user of this process may not read or may not write."""
    if os.statvfs(root).f_flag & os.ST_RDONLY:
        why = f"{root} is mounted read-only"
        yield at("finding", "permissions", why, "mount it read-write before you write to it")
        return
    for directory in (root, *(path for path in below(root) if path.is_dir())):
        if not os.access(directory, os.R_OK | os.W_OK | os.X_OK) and lexists(directory):
            why = (
                f"the user {os.geteuid()} may not read, may not write or may not enter {directory}"
            )
            remedy = f"change the owner (chown) or the mode (chmod) of {_quote(directory)}"
            yield at("finding", "permissions", why, remedy)


def limits(engine: Engine, root: Path, store: str) -> Iterator[Finding]:
    """Report segments with legacy names, and a limit of open files that is too low."""
    if store not in engine.parents(root):
        return
    segments = engine.children(root, store)
    for name in segments:
        rest = name.removeprefix(store)
        if rest != name and _LEGACY.fullmatch(rest):
            today = name_of(store, 0)[:-1] + "<start>"
            why = f"the name of the segment {name!r} has the form of older Kafka Streams versions"
            rename = f"the next writer renames the segment to {today}"
            yield at("note", "legacy", f"{why}; {rename}", "", store)
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    wanted = _DESCRIPTORS_PER_DATABASE * min(len(segments), 64)
    if allowed != resource.RLIM_INFINITY and wanted > allowed // 2 and max_open() < len(segments):
        why = (
            f"the store has {len(segments)} segments, but ulimit -n is {allowed}, so at most "
            f"{max_open()} segments can be open at a time"
        )
        yield at("finding", "file descriptors", why, "raise the limit with ulimit -n", store)
