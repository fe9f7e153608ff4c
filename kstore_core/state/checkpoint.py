"""A consistent copy of a state directory, whoever writes it; see docs/migrate.md."""

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
    """Copy a state directory, which another process may write to; the names of its stores.

    In the process that writes, ``state.checkpoint(dest)`` does the same with links instead of
    copies, where the engine can.

    Parameters
    ----------
    dest : path-like
        A new state directory; it is there once it is whole.
    engine, options
        As in :func:`kstore_core.open_state`.

    Raises
    ------
    FileExistsError
        There is something at ``dest``.
    SpecError, UnsupportedError, EngineError
        As :meth:`kstore_core.state.StateDirectory.checkpoint` does.
    StateError
        There is no state directory.
    """
    with open_state(path, engine=engine, options=options, read_only=True) as state:
        return state.checkpoint(dest)
