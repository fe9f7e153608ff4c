"""The hooks that a plug-in may implement. Called when something is opened, never per record.

A plug-in is a module, or an object in one, that an entry point names. Which hooks are asked of it
depends on the entry point's group; see docs/extending/hooks.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import pluggy

from kstore_core.engine import Engine

if TYPE_CHECKING:
    import click

    from kstore_core.spec import StoreSpec
    from kstore_core.tables import Table

__all__ = ["ENGINES", "HOOKS", "PLUGINS", "CommandRegistrar", "EngineRegistrar", "hookimpl"]

PROJECT = "kstore"

ENGINES = "kstore.engines"
"""The entry-point group of engines. An entry is named like its engine, and imported for it only."""

PLUGINS = "kstore.plugins"
"""The entry-point group of all other plug-ins. Its entries are imported when a store is opened."""

HOOKS = {
    ENGINES: ("kstore_register_engines",),
    PLUGINS: ("kstore_add_commands", "kstore_wrap_table"),
}
"""The hooks that are asked of the plug-ins of each group."""

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)
"""Marks a plug-in's functions: ``from kstore_core.hookspecs import hookimpl``."""


class EngineRegistrar(Protocol):
    """The registrar of a plug-in's engines."""

    def add(self, engine: type[Engine]) -> None:
        """Make ``engine`` known under ``engine.name``.

        Raises
        ------
        TypeError
            It is no complete subclass of ``Engine``, or has no name or capabilities.
        """


class CommandRegistrar(Protocol):
    """The registrar of a plug-in's commands."""

    def add(self, command: click.Command) -> None:
        """Make ``kstore <command.name>`` run ``command``.

        Raises
        ------
        TypeError
            It is no click command, or has no name.
        PluginError
            kstore or another plug-in has a command of this name.
        """


@hookspec
def kstore_register_engines(registrar: EngineRegistrar) -> None:
    """Add this plug-in's engine classes to ``registrar``.

    Asked of the plug-ins of the group ``kstore.engines``, when an engine of the entry point's name
    is wanted.

    Parameters
    ----------
    registrar : EngineRegistrar
        ``registrar.add(engine)`` takes a subclass of ``kstore_core.engine.Engine``.
    """


@hookspec(firstresult=True)
def kstore_wrap_table(table: Table, spec: StoreSpec) -> Table | None:
    """Put a table of this plug-in's own in front of a store's.

    Asked of the plug-ins of the group ``kstore.plugins``, once each time that a store is opened,
    read-only or not. Plug-ins are asked in the order of their names, and each is given what the one
    before it returned: the last one is nearest to the store's user.

    Parameters
    ----------
    table : Table
        The rows of the store, encoded as its format says. A layer is best made as a subclass of
        ``kstore_core.tables.Layer``.
    spec : StoreSpec
        What the store was opened as.

    Returns
    -------
    Table or None
        The table to use in place of ``table``; None to leave this store as it is.
    """


@hookspec
def kstore_add_commands(registrar: CommandRegistrar) -> None:
    """Add this plug-in's commands to the command line.

    Asked of the plug-ins of the group ``kstore.plugins``, when ``kstore`` lists its commands or is
    given one that is not its own. Import what is heavy inside the command.

    Parameters
    ----------
    registrar : CommandRegistrar
        ``registrar.add(command)`` takes a ``click.Command``.
    """
