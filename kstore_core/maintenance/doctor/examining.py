"""The examination of a state directory and its environment. It changes nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kstore_core.checks import existing_directory
from kstore_core.engine import Engine
from kstore_core.errors import (
    EngineLockedError,
    EngineUnavailableError,
    KStoreError,
    SpecError,
    StateError,
    UnknownEngineError,
)
from kstore_core.hints import command
from kstore_core.maintenance.doctor.environment import (
    at,
    disk,
    files_of,
    leftovers,
    limits,
    lock_file,
    locks,
    permissions,
)
from kstore_core.maintenance.doctor.logs import in_logs
from kstore_core.maintenance.doctor.store_checks import in_stores, surveys
from kstore_core.maintenance.doctor.versions import rocksdb_versions
from kstore_core.maintenance.verify.findings import Finding, Verified, is_forbidden
from kstore_core.maintenance.verify.protocol import Survey
from kstore_core.spec import is_name
from kstore_core.state import open_state

__all__ = ["examine"]

_CORRUPT = 4
_ALLOW = "change the owner or the mode of the files, or run kstore as a user who may read them"


def examine(
    path: str | os.PathLike[str],
    *,
    engine: str | Engine | None = None,
    options: Mapping[str, Any] | None = None,
    changelog: str | os.PathLike[str] | None = None,
) -> Verified:
    """Examine a state directory and its stores without changing them.

    The examination reads no rows. :func:`kstore_core.maintenance.verify.verify` reads rows.

    Parameters
    ----------
    path : path-like
    engine, options
        The arguments of :func:`kstore_core.open_state`.
    changelog : path-like, optional
        The directory of the stores' changelogs in files. If it is given, the ends of the logs are
        checked, too.

    Returns
    -------
    Verified
        The findings. A finding that needs an action has a remedy.

    Raises
    ------
    SpecError
        ``path`` is empty or not a valid path.
    StateError
        The state directory or the directory of the changelogs does not exist.
    """
    root = existing_directory(path)
    if changelog is not None and not Path(changelog).is_dir():
        raise StateError(f"there is no directory of changelogs at {changelog}")
    found = Verified()
    for look in (locks, leftovers, disk, permissions):
        found.findings += look(root)
    try:
        with open_state(root, engine=engine, options=options, read_only=True) as state:
            made = state.engine
    except SpecError as error:
        remedy = (
            "name the engine with --engine"
            if engine is None
            else "run the command again without --engine"
        )
        found.findings.append(at("finding", "engine", str(error), remedy))
        return found
    except (EngineUnavailableError, UnknownEngineError) as error:
        remedy = "list the installed engines with: kstore engines"
        found.findings.append(at("finding", "engine", str(error), remedy))
        return found
    before = len(found.findings)
    try:
        found.findings += lock_file(root, made)
        found.findings += _stores(made, root, None if changelog is None else Path(changelog))
        sound = found.exit_code != _CORRUPT
        found.findings[before:before] = rocksdb_versions(made, root, sound=sound)
    except PermissionError as error:
        found.findings.append(at("finding", "permissions", str(error), _ALLOW))
    return found


def _stores(engine: Engine, root: Path, logs: Path | None) -> Iterator[Finding]:
    """Check the files of the stores, then their metadata, then their changelogs."""
    in_segments = engine.parents(root)
    stores = sorted(filter(is_name, {*engine.stores(root), *in_segments}))
    lost = sorted(_store_folders(engine, root) - {*stores})
    for store in lost:
        why = "the directory of the store has files, but they are not a database"
        yield at("corrupt", "files", why, _quarantine_command(root, store), store)
    damaged = set()
    for store in stores:
        names: list[str | None] = [None]
        if store in in_segments:
            names = [*engine.children(root, store)]
        for name in names:
            for finding in _files(engine, root, store, name):
                damaged.add(store)
                yield finding
        yield from limits(engine, root, store)
    surveyed: dict[str, Survey] = {}
    for store, found, findings in surveys(engine, root, stores):
        yield from findings
        if found is not None and (found.read or store not in damaged):
            surveyed[store] = found
    yield from in_stores(root, surveyed)
    if logs is not None:
        yield from in_logs(root, logs.resolve(), surveyed)


def _files(engine: Engine, root: Path, store: str, segment: str | None) -> Iterator[Finding]:
    place, aside = (store, segment or ""), _quarantine_command(root, store)
    try:
        for fault in engine.file_faults(root, store, segment):
            yield at("corrupt", "files", fault, aside, *place)
    except EngineLockedError as error:
        yield at("note", "files", str(error), "", *place)
    except (KStoreError, OSError) as error:
        if is_forbidden(error):
            yield at("finding", "permissions", str(error), _ALLOW, *place)
        else:
            yield at("corrupt", "files", str(error), aside, *place)


def _store_folders(engine: Engine, root: Path) -> set[str]:
    """Return the names of all store directories that contain files, even without a database."""
    folder = root / engine.name
    if not folder.is_dir():
        return set()
    return {
        entry.name
        for entry in folder.iterdir()
        if is_name(entry.name) and files_of(engine, root, entry.name) and any(entry.iterdir())
    }


def _quarantine_command(root: Path, store: str) -> str:
    return command("doctor", root, options=f"--set-aside {store}")
