"""A consistent copy of a state directory that any process may write; see docs/migrate.md."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from kstore_core.engine import Engine
from kstore_core.state import open_state

__all__ = ["checkpoint"]


def checkpoint(
    path: str | os.PathLike[str],
    dest: str | os.PathLike[str],
    *,
    engine: str | Engine | None = None,
    options: Mapping[str, Any] | None = None,
) -> list[str]:
    """Copy a state directory, which another process may write.

    In the writing process ``state.checkpoint(dest)`` does the same, with links instead of copies if
    the engine supports links.

    Parameters
    ----------
    path : path-like
        The state directory.
    dest : path-like
        A new state directory, which appears once it is complete.
    engine, options
        The arguments of :func:`kstore_core.open_state`.

    Returns
    -------
    list of str
        The names of the stores.

    Raises
    ------
    FileExistsError
        ``dest`` exists.
    SpecError, UnsupportedError, EngineError
        See :meth:`kstore_core.state.StateDirectory.checkpoint`.
    StateError
        There is no state directory at ``path``.
    """
    with open_state(path, engine=engine, options=options, read_only=True) as state:
        return state.checkpoint(dest)
