"""The paths of databases in a state directory, and of checkpoints."""

from __future__ import annotations

import os
from pathlib import Path

from kstore_core.errors import SpecError

__all__ = ["check_target", "store_path"]


def store_path(root: Path, folder: str, *names: str, reserved: str = "/") -> Path:
    """Return the path ``<root>/<folder>/<names>`` of a database.

    Parameters
    ----------
    root : Path
        The state directory.
    folder : str
        The folder of the engine in the state directory; empty if the engine has no folder.
    names : str
        The name of a store, and for a child also the name of the child.
    reserved : str
        A string that a name must not contain, in addition to a slash and a zero byte.

    Raises
    ------
    SpecError
        A name is not possible for a directory, or a link points outside of the state directory.
    """
    for name in names:
        if name in ("", ".", "..") or any(mark in name for mark in ("/", "\0", reserved)):
            raise SpecError(
                f"{name!r} cannot be the name of a store, because it cannot be the name of a "
                "directory"
            )
    path = root.joinpath(folder, *names)
    below = [path, *path.parents][: len(path.parts) - len(root.parts)]
    if any(map(os.path.islink, below)) and not path.resolve().is_relative_to(root.resolve()):
        raise SpecError(
            f"{path} is a link to {path.resolve()}, which is outside of the state directory; move "
            "the store into the state directory, or open the directory that contains the store"
        )
    return path


def check_target(target: Path) -> None:
    """Raise FileExistsError if the target of a checkpoint exists."""
    if os.path.lexists(target):
        raise FileExistsError(f"the checkpoint target {target} exists; name a new directory")
