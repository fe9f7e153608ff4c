"""The hooks that a plug-in may implement. They are called at an open, never per record.

A plug-in is a module, or an object in one, that an entry point names. The entry point's group
decides which hooks are called; see docs/extending/hooks.md.
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
"""The entry-point group of engines. Each entry must have the name of its engine; kstore imports
only the entries that it needs."""

PLUGINS = "kstore.plugins"
"""The entry-point group of all other plug-ins. Its entries are imported when a store is opened."""

HOOKS = {
    ENGINES: ("kstore_register_engines",),
    PLUGINS: ("kstore_add_commands", "kstore_wrap_table"),
}
"""The hooks that are called for each group."""

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)
"""Marks a plug-in's functions: ``from kstore_core.hookspecs import hookimpl``."""


class EngineRegistrar(Protocol):
    """The registrar of a plug-in's engines."""

    def add(self, engine: type[Engine]) -> None:
        """Register ``engine`` under ``engine.name``.

        Raises
        ------
        TypeError
            The class is no complete subclass of ``Engine``, or has no name or capabilities.
        """


class CommandRegistrar(Protocol):
    """The registrar of a plug-in's commands."""

    def add(self, command: click.Command) -> None:
        """Make ``kstore <command.name>`` run ``command``.

        Raises
        ------
        TypeError
            The object is no click command, or has no name.
        PluginError
            kstore or another plug-in already has a command of this name.
        """


@hookspec
def kstore_register_engines(registrar: EngineRegistrar) -> None:
    """Add this plug-in's engine classes to ``registrar``.

    Called for the group ``kstore.engines``, when an engine of the entry point's name is opened.

    Parameters
    ----------
    registrar : EngineRegistrar
        Its ``add(engine)`` takes a subclass of ``kstore_core.engine.Engine``.
    """


@hookspec(firstresult=True)
def kstore_wrap_table(table: Table, spec: StoreSpec) -> Table | None:
    """Wrap the table of a store in one of this plug-in's own.

    Called for the group ``kstore.plugins``, once at each open of a store, read-only or not.
    Plug-ins are called in the order of their names. Each gets the table that the one before it
    returned, so calls of the store reach the table of the last plug-in first.

    Parameters
    ----------
    table : Table
        The rows of the store, encoded in its format. Write a layer as a subclass of
        ``kstore_core.tables.Layer``.
    spec : StoreSpec
        The spec that the store is opened with.

    Returns
    -------
    Table or None
        The table to use in place of ``table``, or None to use ``table`` itself.
    """


@hookspec
def kstore_add_commands(registrar: CommandRegistrar) -> None:
    """Add this plug-in's commands to the command line.

    Called for the group ``kstore.plugins``, when ``kstore`` lists its commands or is given a
    command that is not its own. Import heavy modules inside the command.

    Parameters
    ----------
    registrar : CommandRegistrar
        Its ``add(command)`` takes a ``click.Command``.
    """
