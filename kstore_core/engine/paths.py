"""Paths of databases below a state directory."""

from __future__ import annotations

import os
from pathlib import Path

from kstore_core.errors import SpecError

__all__ = ["check_target", "store_path"]


def store_path(root: Path, folder: str, *names: str, reserved: str = "/") -> Path:
    """Return the path ``<root>/<folder>/<names>``, within the state directory ``root``.

    Parameters
    ----------
    folder : str
        Empty if databases lie in the state directory itself.
    names : str
        The name of a store, and that of its child.
    reserved : str
        A string that a name must not contain, besides a slash and a zero byte.

    Raises
    ------
    SpecError
        A name is not that of one directory, or a link points out of the state directory.
    """
    for name in names:
        if name in ("", ".", "..") or any(mark in name for mark in ("/", "\0", reserved)):
            raise SpecError(f"{name!r} cannot be the name of a store: it is not one directory")
    path = root.joinpath(folder, *names)
    if not path.resolve().is_relative_to(root.resolve()):
        raise SpecError(
            f"{path} is a link to {path.resolve()}, outside of the state directory; move the "
            "store into it, or open the directory that the store lies in"
        )
    return path


def check_target(target: Path) -> None:
    """Raise FileExistsError if the target of a checkpoint exists."""
    if os.path.lexists(target):
        raise FileExistsError(f"checkpoint target {target} exists; name a new directory")
