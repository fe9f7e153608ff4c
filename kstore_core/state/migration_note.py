"""The plan of a migration that replaces stores, and the paths of its files.

The files are in a directory that neither kstore nor Kafka Streams reads as a store. ``new/`` is a
state directory with the new stores, ``old/<store>/`` one with the replaced files of a store. The
plan has the migration's progress. Until its step is ``swap`` only ``new/`` has changed. After that
no store can be opened until the last one is in its place.
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
"""No store has this name, and neither the folder nor its subfolders are databases."""

_VERSION = 1


class Places(NamedTuple):
    """The paths of a migration's files.

    Attributes
    ----------
    home : Path
        The folder of the others.
    plan, new, old, dropped : Path
        ``dropped`` has the files that are being deleted.
    """

    home: Path
    plan: Path
    new: Path
    old: Path
    dropped: Path


def places(root: Path) -> Places:
    """Return the paths in a state directory."""
    home = root / FOLDER
    return Places(home, home / "plan.json", home / "new", home / "old", home / "dropped")


class Move(NamedTuple):
    """The old and the new path of a store's files: relative to a state directory."""

    store: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Plan:
    """The progress of a migration.

    Attributes
    ----------
    step : {"copy", "swap"}
        The migration is writing the new stores, or is moving the complete ones into place.
    stores : tuple of str
    before, after : str
        The names of the engines.
    moves : tuple of Move
        Empty in the step ``copy``.
    """

    step: Literal["copy", "swap"]
    stores: tuple[str, ...]
    before: str
    after: str
    moves: tuple[Move, ...] = ()

    def write(self, root: Path) -> None:
        """Write the plan durably over the earlier one.

        Raises
        ------
        StorageFullError
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
                f"{at.home} is not a directory, and a migration needs a directory of this name; "
                "nothing was changed. Move the file away, and try again"
            ) from error
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise StorageFullError(
                    f"{root}: no space left to plan a migration; nothing was changed. Make room, "
                    "and try again"
                ) from error
            raise
        sync_directory(at.home)
        sync_directory(root)


def read_plan(root: Path) -> Plan | None:
    """Return the plan of an unfinished migration, or None.

    Raises
    ------
    InconsistentStateError
        The plan is damaged, or of another version.
    EngineError
        The file cannot be read.
    """
    at = places(root)
    try:
        fields = json.loads(at.plan.read_bytes())
        if fields.pop("version") != _VERSION:
            raise ValueError("it has the layout of another version of kstore")
        stores, moves = tuple(fields.pop("stores")), tuple(Move(*m) for m in fields.pop("moves"))
        return Plan(stores=stores, moves=moves, **fields)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InconsistentStateError(
            f"{at.plan} is the plan of a migration, and cannot be read: {error}. Nothing was "
            f"changed: finish it with the kstore that began it; the replaced files are in {at.old}"
        ) from error
    except OSError as error:
        raise EngineError(
            f"{at.plan} is the plan of a migration, and cannot be read: "
            f"{error.strerror or error}. {more_files(error) or 'Make it readable'}, and try again"
        ) from error


def moving(root: Path) -> tuple[str, ...]:
    """Return the stores that a migration is moving into place."""
    plan = read_plan(root)
    return () if plan is None or plan.step == "copy" else plan.stores


def check_not_moving(root: Path, store: str) -> None:
    """Check that no migration is moving a store into place.

    Raises
    ------
    InconsistentStateError
        A migration is moving this store, or is moving the directory to another engine.
    """
    plan = read_plan(root)
    if plan is None or plan.step == "copy":
        return
    if store in plan.stores or plan.before != plan.after:
        first = store if store in plan.stores else plan.stores[0]
        raise InconsistentStateError(
            f"a migration of {', '.join(plan.stores)} in {root} was interrupted while the new "
            "stores were put in the place of the old ones; nothing is lost, but no store of it can "
            "be opened until it is finished. Finish it with: " + command("migrate", root, first)
        )
