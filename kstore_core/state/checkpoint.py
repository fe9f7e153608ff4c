"""The function :func:`checkpoint`, which copies a state directory; see docs/migrate.md."""

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
    """Make a consistent copy of a state directory, even while another process writes to it.

    The process that writes to the directory can call ``state.checkpoint(dest)`` instead. That
    method links files instead of copying them if the engine supports links.

    Parameters
    ----------
    path : path-like
        The state directory.
    dest
        As in :meth:`kstore_core.state.StateDirectory.checkpoint`, which also describes the result
        and most errors.
    engine, options
        The arguments of :func:`kstore_core.open_state`.

    Raises
    ------
    StateError
        There is no state directory at ``path``.
    """
    with open_state(path, engine=engine, options=options, read_only=True) as state:
        return state.checkpoint(dest)
