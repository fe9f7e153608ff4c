"""The engine of a state directory: what its lock file records, held against its files.

The lock file is deleted, copied and damaged more easily than stores are. So it is believed as long
as the engine that it names recognises the directory; where that does not, the others are asked. An
engine that is opened beside the stores of another would make an empty store, and is refused.
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
"""How many places of stores a message names."""

_NOT_STORES = (LOCK_FILE, ".lock", FOLDER)
"""What lies in a state directory of any engine: locks, kstore's and Kafka's, and a migration."""


class Recognised(NamedTuple):
    """An engine with files in a directory.

    Attributes
    ----------
    name : str
    places : tuple of str
        Where stores of it lie, relative to the directory; a few of them.
    error : str or None
        Why the engine cannot be loaded; the files are then taken for its own by where they lie.
    """

    name: str
    places: tuple[str, ...]
    error: str | None = None

    def __str__(self) -> str:
        return f"the engine {self.name!r} ({', '.join(self.places)})"


def engine_of(root: Path) -> str:
    """The name of the engine of a state directory, where the caller gives none.

    Raises
    ------
    SpecError
        Nothing tells it, stores of two engines lie there, or the lock file names another engine
        than that of the stores.
    EngineUnavailableError
        The stores are of an engine that cannot be loaded.
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
            f"no engine is given, and {root} holds nothing that tells one; "
            f'pass engine="rocksdb" or another that `kstore engines` lists{_not_asked()}'
        )
    if len(found) > 1:
        raise SpecError(
            f"{root} holds stores of {_listed(found)}, and its {LOCK_FILE} does not tell which of "
            "them is in use; name the engine, or move the stores of the other one away"
        )
    (only,) = found
    if only.error is not None:
        raise EngineUnavailableError(f"{root} holds stores of {only}. {only.error}")
    return only.name


def check_engine(root: Path, engine: Engine) -> None:
    """Refuse an engine that would see nothing of what another one has stored in a directory.

    Raises
    ------
    SpecError
    """
    recorded = recorded_engine(root)
    others = recorded not in (None, engine.name)
    if _has(engine, root):
        if not (others and recorded is not None and _recognises(recorded, root) is not None):
            return  # where the lock file names another one, it is wrong
    elif not others or (recorded is not None and _recognises(recorded, root) is None):
        plan = _swap(root)
        if plan is not None and engine.name in (plan.before, plan.after):
            return  # its stores are on their way
        found = recognised(root, but=engine.name)
        if found:
            raise _beside(root, engine.name, recorded, found)
        if not others:
            return
    raise SpecError(
        f"{root} was written with the engine {recorded!r}, so {engine.name!r} would see none of "
        "it; leave the engine out, or use another directory"
    )


def recognised(root: Path, *, but: str | None = None) -> list[Recognised]:
    """The installed engines that recognise a directory, by name, but for one of them.

    Plug-ins are imported where the directory holds something at all.
    """
    if not _holds_something(root):
        return []
    names = dict.fromkeys(engine.name for engine in installed_engines())
    found = (_recognises(name, root) for name in names if name != but)
    return [one for one in found if one is not None]


def _recognises(name: str, root: Path) -> Recognised | None:
    """An engine, if it has files in the directory."""
    try:
        engine = engine_class(name)()
        if _has(engine, root):
            stores = sorted({*engine.stores(root), *engine.parents(root)})
            return Recognised(name, _places(root, name, stores))
    except NOT_A_PLUGINS:
        raise
    except UnknownEngineError:
        return None
    except Exception as error:  # noqa: BLE001 - a broken engine stands in nobody's way
        said = str(error) if isinstance(error, EngineUnavailableError) else reason(error)
        stores = _by_convention(name, root)
        return Recognised(name, _places(root, name, stores), said) if stores else None
    return None


def _has(engine: Engine, root: Path) -> bool:
    try:
        return engine.recognises(root)
    except OSError:
        return True  # nobody can tell; what is opened there says why


def _by_convention(name: str, root: Path) -> list[str]:
    """The stores of an engine that cannot be loaded, by where engines keep them."""
    found = [entry.name for entry in _entries(root / name) if any(_entries(entry))]
    if not found and name == "rocksdb":  # Kafka's segments
        found = [path.parts[-3] for path in islice(root.glob("*/*/CURRENT"), _NAMED)]
    return sorted(set(found))


def _places(root: Path, engine: str, stores: Iterable[str]) -> tuple[str, ...]:
    """Where stores lie, by convention; the name of the engine's folder where nothing is found."""
    found = []
    for store in islice(stores, _NAMED):
        places = (Path(engine, store), Path(store))
        found.append(next((str(place) for place in places if os.path.lexists(root / place)), store))
    return tuple(found) or (engine,)


def _holds_something(root: Path) -> bool:
    """Return True if a file or a directory that is not empty may be a store's."""
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
        return [folder]  # nobody can say that there is nothing


def _swap(root: Path) -> Plan | None:
    """The plan of a migration to another engine that was interrupted with stores on their way."""
    try:
        plan = read_plan(root)
    except InconsistentStateError:  # told of when a store is opened
        return None
    if plan is None or plan.step != "swap" or plan.before == plan.after:
        return None
    return plan


def _is_installed(name: str) -> bool:
    return any(engine.name == name for engine in installed_engines())


def _beside(
    root: Path, engine: str, recorded: str | None, found: list[Recognised]
) -> SpecError | EngineUnavailableError:
    """The error for an engine that has nothing in a directory where others have stores."""
    record = f", although its {LOCK_FILE} names {engine!r}" if recorded == engine else ""
    text = f"{root} holds stores of {_listed(found)}{record}, and {engine!r} would see none of them"
    errors = [one.error for one in found if one.error is not None]
    if errors:
        return SpecError(f"{text}; use another directory for it. {' '.join(errors)}")
    names = " or ".join(f"engine={one.name!r}" for one in found)
    return SpecError(f"{text}; open it with {names}, or use another directory")


def _listed(found: list[Recognised]) -> str:
    return " and of ".join(map(str, found))


def _not_asked() -> str:
    """List the engines that cannot be loaded, and the reasons."""
    errors = []
    for name in dict.fromkeys(engine.name for engine in installed_engines()):
        try:
            engine_class(name)
        except EngineUnavailableError as error:
            errors.append(str(error))
    return f". Not asked, for it cannot be loaded: {'; '.join(errors)}" if errors else ""
