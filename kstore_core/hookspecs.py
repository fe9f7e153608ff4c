"""The hooks that a plug-in may implement. Called when something is opened, never per record."""

from __future__ import annotations

from typing import Protocol

import pluggy

from kstore_core.engine import Engine

__all__ = ["EngineRegistrar", "hookimpl", "hookspec"]

PROJECT = "kstore"
hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)
"""Marks a plug-in's functions: ``from kstore_core.hookspecs import hookimpl``."""


class EngineRegistrar(Protocol):
    """What a plug-in hands its engines to."""

    def add(self, engine: type[Engine]) -> None:
        """Make ``engine`` known under ``engine.name``."""


@hookspec
def kstore_register_engines(registrar: EngineRegistrar) -> None:
    """Add this plug-in's engine classes to ``registrar``.

    The plug-in is a module named by an entry point of the group ``kstore.engines`` whose name is
    the engine's. It is imported only when that engine is asked for.
    """
