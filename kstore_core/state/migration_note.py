"""The plan of a migration that replaces stores, and the paths of its files.

The files are in a folder of the state directory that neither kstore nor Kafka Streams reads as a
store. Its subfolder ``new/`` is a state directory that contains the new stores. Each subfolder
``old/<store>/`` is a state directory that contains the replaced files of a store. The plan contains
the progress of the migration. During the step ``copy`` the migration changes only ``new/``. During
the step ``swap`` the stores of the migration cannot be opened until all of them were moved. If the
migration changes the engine, no store of the directory can be opened.
"""

from __future__ import annotations

import errno
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from kstore_core.errors import EngineError, InconsistentStateError, StateError, StorageFullError
from kstore_core.hints import command
from kstore_core.system.directories import more_files, sync_directory

__all__ = ["FOLDER", "Move", "Plan", "check_not_moving", "moving", "places", "read_plan"]

FOLDER = ".kstore-migrate~"
"""The name of a migration's folder, which cannot be the name of a store."""

_VERSION = 1


class Places(NamedTuple):
    """The paths of a migration's files.

    Attributes
    ----------
    home : Path
        The folder of the migration in the state directory. It contains the other paths.
    plan, new, old, dropped : Path
        The file of the plan, and the folders of the new stores, of the replaced stores and of the
        files that are being deleted.
    """

    home: Path
    plan: Path
    new: Path
    old: Path
    dropped: Path


def places(root: Path) -> Places:
    """Return the paths of a migration's files in the state directory ``root``."""
    home = root / FOLDER
    return Places(home, home / "plan.json", home / "new", home / "old", home / "dropped")


class Move(NamedTuple):
    """The paths of a store's files before and after a move, relative to a state directory."""

    store: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Plan:
    """The progress of a migration.

    Attributes
    ----------
    step : {"copy", "swap"}
        In the step "copy" the migration writes the new stores. In the step "swap" it replaces the
        old stores by the new stores.
    stores : tuple of str
    before, after : str
        The names of the engines before and after the migration.
    moves : tuple of Move
        The moves of the step "swap"; empty in the step "copy".
    """

    step: Literal["copy", "swap"]
    stores: tuple[str, ...]
    before: str
    after: str
    moves: tuple[Move, ...] = ()

    def write(self, root: Path) -> None:
        """Write the plan to disk durably, and replace an earlier plan.

        Raises
        ------
        StorageFullError
            The disk has no space left for the plan.
        StateError
            The path of the migration's folder is not a directory.
        """
        at = places(root)
        try:
            at.home.mkdir(exist_ok=True)
            aside = at.plan.with_suffix(".new")
            with aside.open("w") as file:
                json.dump({"version": _VERSION, **asdict(self)}, file)
                file.flush()
                os.fsync(file.fileno())
            aside.replace(at.plan)
        except FileExistsError as error:
            raise StateError(
                f"{at.home} is not a directory, but a migration needs a directory of this name. "
                "Nothing was changed. Move the file away, and try again"
            ) from error
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise StorageFullError(
                    f"the disk of {root} has no space left for the plan of a migration. No store "
                    "was changed. Free some space, and try again"
                ) from error
            raise
        sync_directory(at.home)
        sync_directory(root)


def read_plan(root: Path) -> Plan | None:
    """Return the plan of an unfinished migration, or None if there is no such migration.

    Raises
    ------
    InconsistentStateError
        The plan is damaged, or its version is not known.
    EngineError
        The file cannot be read.
    """
    at = places(root)
    try:
        fields = json.loads(at.plan.read_bytes())
        if fields.pop("version") != _VERSION:
            raise ValueError("another version of kstore wrote the plan")
        stores, moves = tuple(fields.pop("stores")), tuple(Move(*m) for m in fields.pop("moves"))
        return Plan(stores=stores, moves=moves, **fields)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InconsistentStateError(
            f"the plan {at.plan} of a migration cannot be read: {error}. Nothing was changed. "
            "Finish the migration with the version of kstore that began it. The replaced files "
            f"are in {at.old}"
        ) from error
    except OSError as error:
        raise EngineError(
            f"the plan {at.plan} of a migration cannot be read: {error.strerror or error}. "
            f"{more_files(error) or 'Make the file readable'}, and try again"
        ) from error


def moving(root: Path) -> tuple[str, ...]:
    """Return the names of the stores that an unfinished migration is replacing."""
    plan = read_plan(root)
    return () if plan is None or plan.step == "copy" else plan.stores


def check_not_moving(root: Path, store: str) -> None:
    """Raise if an unfinished migration is replacing a store.

    Raises
    ------
    InconsistentStateError
        A migration is replacing this store, or is moving the directory to another engine.
    """
    plan = read_plan(root)
    if plan is None or plan.step == "copy":
        return
    if store in plan.stores or plan.before != plan.after:
        first = store if store in plan.stores else plan.stores[0]
        raise InconsistentStateError(
            f"a migration of {', '.join(plan.stores)} in {root} was interrupted while it replaced "
            f"the stores. No data are lost, but the store {store!r} cannot be opened until the "
            "migration is finished. Finish the migration with: " + command("migrate", root, first)
        )
