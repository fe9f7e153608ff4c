"""The choice of the engine of a state directory, by its lock file and its other files.

A lock file is more easily deleted, copied or damaged than stores. So kstore uses the engine that
the lock file names only if this engine recognises the directory. If it does not, kstore asks the
other installed engines. If no engine recognises a store, kstore uses the engine that the lock file
names. If the user asks for an engine that does not recognise the existing stores, kstore raises an
error, because this engine would create empty stores.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from kstore_core.discovery.entry_points import NOT_A_PLUGINS, reason
from kstore_core.discovery.registry import engine_class, installed_engines
from kstore_core.engine import Engine
from kstore_core.errors import (
    EngineUnavailableError,
    InconsistentStateError,
    SpecError,
    UnknownEngineError,
)
from kstore_core.state.migration_note import FOLDER, Plan, read_plan
from kstore_core.system.lock import LOCK_FILE, recorded_engine

__all__ = ["Recognised", "check_engine", "engine_of", "recognised"]

_NAMED = 3
"""The maximum number of store paths in an error message."""

_NOT_STORES = (LOCK_FILE, ".lock", FOLDER)
"""The files in a state directory that belong to no store, such as lock files."""


class Recognised(NamedTuple):
    """An engine whose files were found in a directory.

    Attributes
    ----------
    name : str
    places : tuple of str
        The paths of at most three of the engine's stores, relative to the directory.
    error : str or None
        The reason why the engine cannot be loaded; None if it was loaded.
    """

    name: str
    places: tuple[str, ...]
    error: str | None = None

    def __str__(self) -> str:
        return f"the engine {self.name!r} ({', '.join(self.places)})"


def engine_of(root: Path) -> str:
    """Return the name of the engine that wrote a state directory.

    Raises
    ------
    SpecError
        The directory contains stores of no engine or of two engines. Or its lock file names an
        installed engine, but the stores belong to another engine.
    EngineUnavailableError
        The engine of the stores cannot be loaded.
    """
    recorded = recorded_engine(root)
    plan = _swap(root)
    if plan is not None:
        return recorded or plan.before
    if recorded is not None and _recognises(recorded, root) is not None:
        return recorded
    found = recognised(root, but=recorded)
    if recorded is not None and (not found or _is_installed(recorded)):
        if found:
            raise _beside(root, recorded, recorded, found)
        return recorded
    if not found:
        raise SpecError(
            f"no engine was passed, and no installed engine recognises a store in {root}. Pass "
            f'engine="rocksdb" or another engine that `kstore engines` lists{_not_asked()}'
        )
    if len(found) > 1:
        raise SpecError(
            f"{root} has stores of {_listed(found)}, and its {LOCK_FILE} does not name an engine. "
            "Pass engine=, or move away the stores of all engines except one"
        )
    (only,) = found
    if only.error is not None:
        raise EngineUnavailableError(f"{root} has stores of {only}. {only.error}")
    return only.name


def check_engine(root: Path, engine: Engine) -> None:
    """Raise SpecError if ``engine`` cannot read the stores in a directory."""
    recorded = recorded_engine(root)
    others = recorded not in (None, engine.name)
    if _has(engine, root):
        if not (others and recorded is not None and _recognises(recorded, root) is not None):
            return  # if the lock file names another engine, the lock file is wrong
    elif not others or (recorded is not None and _recognises(recorded, root) is None):
        plan = _swap(root)
        if plan is not None and engine.name in (plan.before, plan.after):
            return  # a migration is moving its stores
        found = recognised(root, but=engine.name)
        if found:
            raise _beside(root, engine.name, recorded, found)
        if not others:
            return
    raise SpecError(
        f"{root} was written with the engine {recorded!r}, and the engine {engine.name!r} cannot "
        "read its stores. Leave out engine=, or use another directory"
    )


def recognised(root: Path, *, but: str | None = None) -> list[Recognised]:
    """Return the installed engines that recognise a directory, except the engine named ``but``.

    The engines' plug-ins are imported only if the directory may contain stores.
    """
    if not _holds_something(root):
        return []
    names = dict.fromkeys(engine.name for engine in installed_engines())
    found = (_recognises(name, root) for name in names if name != but)
    return [one for one in found if one is not None]


def _recognises(name: str, root: Path) -> Recognised | None:
    """Return the engine of this name if its files are in the directory, or None."""
    try:
        engine = engine_class(name)()
        if _has(engine, root):
            stores = sorted({*engine.stores(root), *engine.parents(root)})
            return Recognised(name, _places(root, name, stores))
    except NOT_A_PLUGINS:
        raise
    except UnknownEngineError:
        return None
    except Exception as error:  # noqa: BLE001 - other engines work without a broken one
        text = str(error) if isinstance(error, EngineUnavailableError) else reason(error)
        stores = _by_convention(name, root)
        return Recognised(name, _places(root, name, stores), text) if stores else None
    return None


def _has(engine: Engine, root: Path) -> bool:
    try:
        return engine.recognises(root)
    except OSError:
        return True  # unknown: opening the stores raises the error


def _by_convention(name: str, root: Path) -> list[str]:
    """Return the names of the stores at the usual paths of an engine that cannot be loaded."""
    found = [entry.name for entry in _entries(root / name) if any(_entries(entry))]
    if not found and name == "rocksdb":  # Kafka's segments
        found = [path.parts[-3] for path in islice(root.glob("*/*/CURRENT"), _NAMED)]
    return sorted(set(found))


def _places(root: Path, engine: str, stores: Iterable[str]) -> tuple[str, ...]:
    """Return the paths of up to three stores. Return the engine's folder if there are no stores."""
    found = []
    for store in islice(stores, _NAMED):
        places = (Path(engine, store), Path(store))
        found.append(next((str(place) for place in places if os.path.lexists(root / place)), store))
    return tuple(found) or (engine,)


def _holds_something(root: Path) -> bool:
    """Return True if the directory has files that may belong to a store."""
    try:
        return any(
            not entry.is_dir() or any(_entries(entry))
            for entry in _entries(root)
            if entry.name not in _NOT_STORES
        )
    except PermissionError:
        return True


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    except PermissionError:
        return [folder]  # unknown, so not empty


def _swap(root: Path) -> Plan | None:
    """Return the plan of a migration to another engine that was interrupted while it moved stores.

    Return None if there is no such migration.
    """
    try:
        plan = read_plan(root)
    except InconsistentStateError:  # raised again when a store is opened
        return None
    if plan is None or plan.step != "swap" or plan.before == plan.after:
        return None
    return plan


def _is_installed(name: str) -> bool:
    return any(engine.name == name for engine in installed_engines())


def _beside(
    root: Path, engine: str, recorded: str | None, found: list[Recognised]
) -> SpecError | EngineUnavailableError:
    """Return the error for a directory with stores of other engines than ``engine``."""
    record = f", although its {LOCK_FILE} names {engine!r}" if recorded == engine else ""
    text = (
        f"{root} has stores of {_listed(found)}{record}. The engine {engine!r} cannot read these "
        "stores"
    )
    errors = [one.error for one in found if one.error is not None]
    if errors:
        text = f"{text}. Use another directory for the engine {engine!r}"
        return SpecError(f"{text}. {' '.join(errors)}")
    names = " or ".join(f"engine={one.name!r}" for one in found)
    return SpecError(f"{text}. Open the directory with {names}, or use another directory")


def _listed(found: list[Recognised]) -> str:
    return " and of ".join(map(str, found))


def _not_asked() -> str:
    """Return the part of an error that lists which engines cannot be loaded, and why."""
    errors = []
    for name in dict.fromkeys(engine.name for engine in installed_engines()):
        try:
            engine_class(name)
        except EngineUnavailableError as error:
            errors.append(str(error))
    return f". Some engines could not be tried: {'; '.join(errors)}" if errors else ""
