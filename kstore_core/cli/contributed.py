"""The commands that plug-ins add. They never replace a command of kstore."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Mapping

import click

from kstore_core.discovery.entry_points import (
    NOT_A_PLUGINS,
    Plugin,
    PluginWarning,
    reason,
    usable_plugins,
)
from kstore_core.errors import PluginError

__all__ = ["contributed_commands", "gather"]


class _Registrar:
    """The registrar to which one plug-in adds its commands."""

    def __init__(self, taken: Mapping[str, str]) -> None:
        self.commands: dict[str, click.Command] = {}
        self._taken = taken

    def add(self, command: click.Command) -> None:
        if not isinstance(command, click.Command) or not command.name:
            raise TypeError(f"a command must be a click.Command with a name, not {command!r}")
        owner = self._taken.get(command.name)
        if command.name in self.commands:
            owner = "this plug-in"
        if owner is not None:
            raise PluginError(
                f"the command {command.name!r} already belongs to {owner}; a command of a plug-in "
                "must have a name that no other command has"
            )
        self.commands[command.name] = command


@functools.cache
def gather(
    plugins: tuple[Plugin, ...], own: tuple[str, ...]
) -> tuple[Mapping[str, click.Command], Mapping[Plugin, str]]:
    """Return the commands of plug-ins, and the errors of plug-ins whose commands cannot be added.

    If a plug-in raises an error or one of its names is already taken, none of its commands is
    added.

    Parameters
    ----------
    plugins : tuple of Plugin
        The plug-ins. If two of them use the same name, the first gets the name.
    own : tuple of str
        The names of kstore's own commands.
    """
    commands: dict[str, click.Command] = {}
    errors: dict[Plugin, str] = {}
    taken = dict.fromkeys(own, "kstore")
    for plugin in plugins:
        registrar = _Registrar(taken)
        try:
            assert plugin.hook is not None
            plugin.hook.kstore_add_commands(registrar=registrar)
        except NOT_A_PLUGINS:
            raise
        except BaseException as error:  # noqa: BLE001 - a plug-in may raise any exception
            errors[plugin] = f"the plug-in {plugin.announced} adds no commands: {reason(error)}"
        else:
            commands.update(registrar.commands)
            taken.update(dict.fromkeys(registrar.commands, f"the plug-in {plugin.announced}"))
    return commands, errors


def contributed_commands(own: tuple[str, ...]) -> Mapping[str, click.Command]:
    """Return the commands of plug-ins. Warn of each plug-in whose commands cannot be added."""
    commands, errors = gather(tuple(usable_plugins()), own)
    for error in errors.values():
        warnings.warn(f"left out: {error}", PluginWarning, stacklevel=2)
    return commands
