"""The hooks that a plug-in can implement.

A plug-in is a module, or an object in a module, that an entry point names. The group of the entry
point determines which hooks kstore calls; see docs/extending/hooks.md. kstore calls no hook while
it reads or writes a record.
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
"""The entry-point group of engines. The name of an entry point must be the name of its engine.
kstore imports only the entry points that it needs."""

PLUGINS = "kstore.plugins"
"""The entry-point group of all other plug-ins. kstore imports all of them when it first opens a
store or lists the plug-ins or commands."""

HOOKS = {
    ENGINES: ("kstore_register_engines",),
    PLUGINS: ("kstore_add_commands", "kstore_wrap_table"),
}
"""The names of the hooks that kstore calls for the plug-ins of each group."""

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)
"""The decorator for the functions by which a plug-in implements hooks."""


class EngineRegistrar(Protocol):
    """An object with which a plug-in registers its engines."""

    def add(self, engine: type[Engine]) -> None:
        """Register ``engine`` under ``engine.name``.

        Raises
        ------
        TypeError
            If ``engine`` is not a subclass of ``Engine``, does not implement all of its methods, or
            has no name or no capabilities.
        """


class CommandRegistrar(Protocol):
    """An object with which a plug-in registers its commands."""

    def add(self, command: click.Command) -> None:
        """Make ``kstore <command.name>`` run ``command``.

        Raises
        ------
        TypeError
            If ``command`` is not a click command, or has no name.
        PluginError
            If kstore or another plug-in already has a command with this name.
        """


@hookspec
def kstore_register_engines(registrar: EngineRegistrar) -> None:
    """Register the engines of a plug-in.

    kstore calls this hook of an entry point of the group ``kstore.engines`` when it needs the
    engine with the name of the entry point, for example to open a state directory.

    Parameters
    ----------
    registrar : EngineRegistrar
        The registrar. Call its method ``add`` with each engine class of the plug-in, a subclass of
        ``kstore_core.engine.Engine``.
    """


@hookspec(firstresult=True)
def kstore_wrap_table(table: Table, spec: StoreSpec) -> Table | None:
    """Return a table that wraps the table of a store.

    kstore calls this hook for the plug-ins of the group ``kstore.plugins``, once at each open of a
    store, also if the store is read-only. kstore calls the plug-ins in the order of their names.
    Each plug-in gets the table that the previous plug-in returned. So a call of the store reaches
    the table of the last plug-in first.

    Parameters
    ----------
    table : Table
        The table of the store's rows, which are encoded in the format of the store. The returned
        table can be an instance of a subclass of ``kstore_core.tables.Layer``.
    spec : StoreSpec
        The spec with which the store is opened.

    Returns
    -------
    Table or None
        The table that the store uses in place of ``table``. None if the plug-in does not wrap this
        table.
    """


@hookspec
def kstore_add_commands(registrar: CommandRegistrar) -> None:
    """Register the commands of a plug-in for the command line.

    kstore calls this hook for the plug-ins of the group ``kstore.plugins``, when ``kstore`` lists
    its commands or is called with an unknown command. Import large modules only in the function of
    a command, so that the list stays fast.

    Parameters
    ----------
    registrar : CommandRegistrar
        The registrar. Call its method ``add`` with each ``click.Command`` of the plug-in.
    """
