"""The command group, which imports a command when it is run and turns errors into exit codes."""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import click

from kstore_core.cli.contributed import contributed_commands
from kstore_core.cli.output.advice import adapted, running
from kstore_core.cli.output.exit_codes import CLOSED_PIPE, exit_code
from kstore_core.cli.output.rendering import json_text, printable
from kstore_core.discovery.entry_points import PluginWarning
from kstore_core.errors import KStoreError
from kstore_core.hints import install_module

__all__ = ["COMMANDS", "kstore"]

COMMANDS = ("checkpoint", "demo", "doctor", "dump", "engines", "get", "history", "inspect",
            "migrate", "rescale", "restore", "upgrade", "verify")  # fmt: skip


class Commands(click.Group):
    """The group of all commands: first the commands of kstore, then the commands of plug-ins."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*COMMANDS, *sorted(contributed_commands(COMMANDS))]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return contributed_commands(COMMANDS).get(cmd_name)
        module = importlib.import_module(f"kstore_core.cli.commands.{cmd_name}")
        command: click.Command = getattr(module, cmd_name)
        return command

    def main(self, *args: Any, **kwargs: Any) -> Any:
        with warnings.catch_warnings():
            warnings.showwarning = partial(_show_warning, warnings.showwarning, set())
            try:
                return super().main(*args, **kwargs)
            except BrokenPipeError:  # the reader closed the pipe before the error was printed
                _discard_output()
                sys.exit(CLOSED_PIPE)

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        with _exit_on_closed_pipe():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        with _exit_on_closed_pipe():
            return self._invoke(ctx, [*ctx._protected_args, *ctx.args])

    def _invoke(self, ctx: click.Context, typed: list[str]) -> Any:
        as_json = "--json" in typed
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise
        except click.UsageError as error:
            if not as_json:
                raise
            ctx.meta["kstore.json"] = True
            self._report(error, error.format_message(), ctx, typed)
        except KeyboardInterrupt:
            if not as_json:
                raise
            ctx.meta["kstore.json"] = True
            self._report(click.Abort(), "interrupted", ctx, typed)
        except (KStoreError, OSError) as error:
            self._report(error, str(error), ctx, typed)
        except ModuleNotFoundError as error:
            if ctx.invoked_subcommand not in COMMANDS or (error.name or "").startswith("kstore"):
                raise
            hint = f"; try: {install_module(error.name)}" if install_module(error.name) else ""
            self._report(error, f"{error}{hint}", ctx, typed)
        return None

    def _report(self, error: Exception, message: str, ctx: click.Context, typed: list[str]) -> None:
        """Print the error on stderr, and exit with its code."""
        name = ctx.invoked_subcommand or ""
        command = self.get_command(ctx, name) if name in COMMANDS else None
        code, message = exit_code(error), adapted(message, running(name, command, typed[1:]))
        if ctx.meta.get("kstore.json"):
            document = {"error": type(error).__name__, "message": message, "exit_code": code}
            click.echo(json_text(document), err=True)
        else:
            click.echo(f"kstore: {printable(message)}", err=True)
        ctx.exit(code)


@contextmanager
def _exit_on_closed_pipe() -> Iterator[None]:
    """Exit without an error when the reader closes the pipe."""
    try:
        yield
    except BrokenPipeError:
        _discard_output()
        raise click.exceptions.Exit(CLOSED_PIPE) from None


def _discard_output() -> None:
    """Discard further output, including the output that the interpreter flushes at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            try:
                stream.flush()
            except BrokenPipeError:
                os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def _show_warning(
    usual: Any, printed: set[str], message: Warning | str, category: type[Warning], *where: Any
) -> None:
    """Print a warning about a plug-in once, on one line. Pass other warnings to ``usual``."""
    if not issubclass(category, PluginWarning):
        usual(message, category, *where)
    elif str(message) not in printed:
        printed.add(str(message))
        click.echo(f"kstore: {printable(str(message))}", err=True)


@click.command(cls=Commands)
@click.version_option(package_name="kstore", prog_name="kstore")
def kstore() -> None:
    """Inspect state directories of Kafka Streams and of kstore.

    Only migrate, restore and upgrade change stores in a state directory. doctor --set-aside renames
    files there. rescale writes new shards of a store of Spark, or new state directories. PATH is a
    state directory, such as a task directory of Kafka Streams (<state.dir>/<application>/0_0).

    Exit codes: 0 ok, 1 findings or not found, 2 usage, 3 locked, 4 corrupt.
    """
