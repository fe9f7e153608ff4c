"""The adaptation of advice in error messages to the running command.

The library writes messages for programs and for the command line. This module removes the Python
arguments from advice, and replaces PATH, STORE and KEY by the arguments of the command. If a
message advises the command that has just failed, the module names another command.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field

import click

__all__ = ["Running", "adapted", "running"]

_READ_OR_WAIT = re.compile(
    r"(, wait with lock_timeout_s=…)?, or open (it|the state directory) with read_only=True"
)
_ARGUMENT = re.compile(r"\b[a-z_]+=(True|False)?[,;] (?=--)")
"""A Python argument, followed by the command-line option that replaces it."""
_COMMAND = re.compile(
    r"\bkstore (?P<name>[a-z]+)(?P<words>(?: (?:'[^']*'|\"[^\"]*\"|\.(?!\s|$)|[^\s'\";,.])+)*)"
)
"""A ``kstore`` command in a message, up to the end of the sentence."""
_NEXT = {"doctor": "verify", "inspect": "verify", "dump": "verify", "get": "verify"}
_NEXT |= {"history": "verify"}
"""The command to advise after a command has failed; ``doctor`` if the command is not listed."""
_WRITERS = ("migrate", "restore", "upgrade")
_PLACES = ("path", "store", "key")
_PLACE = re.compile(r"(?<= )(PATH|STORE|KEY)(?![^ ])")


@dataclass(frozen=True, slots=True)
class Running:
    """The name of the running command, with the arguments and options that were given.

    ``places`` has the values of the arguments ``path``, ``store`` and ``key``.
    """

    name: str = ""
    places: Mapping[str, str] = field(default_factory=dict)
    options: frozenset[str] = frozenset()

    @classmethod
    def of(cls, ctx: click.Context) -> Running:
        """Return the command of this click context."""
        given = {name: value for name, value in ctx.params.items() if value}
        options = {one for param in ctx.command.params if param.name in given for one in param.opts}
        places = {name: str(given[name]) for name in _PLACES if name in given}
        return cls(ctx.info_name or "", places, frozenset(options))

    def advice(self, name: str, words: str) -> str:
        """Return a command that can be run unchanged and is not the command that failed."""
        words = _PLACE.sub(self._place, words)
        arguments = shlex.split(words)
        if name != self.name or self._is_another(name, arguments):
            return f"kstore {name}{words}"
        path = next((one for one in arguments if not one.startswith("-")), None)
        if path is None:
            return "kstore --help"
        dash = "-- " if path.startswith("-") else ""
        return f"kstore {_NEXT.get(name, 'doctor')} {dash}{shlex.quote(path)}"

    def _place(self, found: re.Match[str]) -> str:
        text = self.places.get(found[0].lower())
        return found[0] if text is None else shlex.quote(text)

    def _is_another(self, name: str, arguments: list[str]) -> bool:
        """Return True if an advised command of the same name differs from the running command.

        The advised command differs if it has an option that the running command lacks. A command
        that writes also differs if it has another path or store.
        """
        if any(one.startswith("--") and one not in self.options for one in arguments):
            return True
        places = [one for one in arguments if not one.startswith("-")][:2]
        return name in _WRITERS and places != [self.places.get(name) for name in _PLACES[:2]]


def running(name: str, command: click.Command | None, arguments: list[str]) -> Running:
    """Parse the command that failed from the words that the user typed, and return it."""
    if command is None:
        return Running(name)
    with command.make_context(name, arguments, resilient_parsing=True) as ctx:
        return Running.of(ctx)


def adapted(message: str, command: Running | None = None) -> str:
    """Return a message whose advice is adapted to the running command.

    Parameters
    ----------
    message : str
    command : Running, optional
        The running command. Default: the command of the current click context.
    """
    if command is None:
        ctx = click.get_current_context(silent=True)
        command = Running() if ctx is None else Running.of(ctx)
    now = command
    message = _ARGUMENT.sub("", _READ_OR_WAIT.sub(", and try again", message))
    return _COMMAND.sub(lambda found: now.advice(found["name"], found["words"]), message)
