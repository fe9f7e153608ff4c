"""The note that stores are being moved, and where their files lie meanwhile.

They are in a directory beside the stores that neither kstore nor Kafka Streams takes for one:
``new/`` is a state directory with what is being made, ``old/<store>/`` one with what was set aside.
A plan says how far it is. Until it says ``swap`` nothing but ``new/`` has been touched; from then
on the stores are not to be opened before the last of them is in its place.
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
"""No store has such a name, and no database lies directly in it or in what is in it."""

_VERSION = 1


class Places(NamedTuple):
    """The paths of a migration's files.

    Attributes
    ----------
    home : Path
        All of them.
    plan, new, old, dropped : Path
        ``dropped`` is what is being deleted.
    """

    home: Path
    plan: Path
    new: Path
    old: Path
    dropped: Path


def places(root: Path) -> Places:
    """The paths in a state directory."""
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
        Whether the new stores are being made, or are whole and are being put in place.
    stores : tuple of str
    before, after : str
        Names of engines.
    moves : tuple of Move
        Once the stores are whole.
    """

    step: Literal["copy", "swap"]
    stores: tuple[str, ...]
    before: str
    after: str
    moves: tuple[Move, ...] = ()

    def write(self, root: Path) -> None:
        """Note it durably, over the one of before.

        Raises
        ------
        StorageFullError
        StateError
            Something else has the name of the directory that it is to be in.
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
                f"{at.home} is no directory, and what a migration makes lies in one of this name; "
                "nothing was changed. Move it away, and try again"
            ) from error
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise StorageFullError(
                    f"{root}: no space left to note a migration; nothing was changed. Make room, "
                    "and try again"
                ) from error
            raise
        sync_directory(at.home)
        sync_directory(root)


def read_plan(root: Path) -> Plan | None:
    """The plan of a migration that is not finished; None where there is none.

    Raises
    ------
    InconsistentStateError
        It is no plan.
    EngineError
        It cannot be read.
    """
    at = places(root)
    try:
        said = json.loads(at.plan.read_bytes())
        if said.pop("version") != _VERSION:
            raise ValueError("another version of kstore wrote it")
        stores, moves = tuple(said.pop("stores")), tuple(Move(*m) for m in said.pop("moves"))
        return Plan(stores=stores, moves=moves, **said)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InconsistentStateError(
            f"{at.plan} says how far a migration is, and cannot be read: {error}. Nothing was "
            f"changed: go on with the kstore that began it; what was set aside is in {at.old}"
        ) from error
    except OSError as error:
        raise EngineError(
            f"{at.plan} says whether a migration is unfinished, and cannot be read: "
            f"{error.strerror or error}. {more_files(error) or 'Make it readable'}, and try again"
        ) from error


def moving(root: Path) -> tuple[str, ...]:
    """The stores that are just being put in place, and may not be where they belong."""
    plan = read_plan(root)
    return () if plan is None or plan.step == "copy" else plan.stores


def check_not_moving(root: Path, store: str) -> None:
    """Refuse to open a store that is just being put in place.

    Raises
    ------
    InconsistentStateError
        It is, or another one is that takes the directory to another engine.
    """
    plan = read_plan(root)
    if plan is None or plan.step == "copy":
        return
    if store in plan.stores or plan.before != plan.after:
        first = store if store in plan.stores else plan.stores[0]
        raise InconsistentStateError(
            f"a migration of {', '.join(plan.stores)} in {root} was interrupted while the new "
            "stores were put in the place of the old ones; nothing is lost, and nothing of it can "
            "be opened before that is finished. Finish it with: " + command("migrate", root, first)
        )
