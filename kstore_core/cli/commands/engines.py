"""The command ``kstore engines``, which lists the installed engines and plug-ins."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from kstore_core.cli.app import COMMANDS
from kstore_core.cli.contributed import gather
from kstore_core.cli.output.exit_codes import FINDINGS
from kstore_core.cli.output.printing import print_json, print_table
from kstore_core.cli.output.rendering import printable
from kstore_core.cli.parameters.options import json_option
from kstore_core.discovery.entry_points import Announced, installed_plugins
from kstore_core.discovery.registry import engine_class, installed_engines
from kstore_core.engine import Capabilities
from kstore_core.errors import EngineUnavailableError

__all__ = ["engines"]

_ABILITIES = ("checkpoint", "bulk_load", "children", "empty_keys")


@click.command()
@json_option
@click.pass_context
def engines(ctx: click.Context, as_json: bool) -> None:
    """List the storage engines and plug-ins that are installed.

    The exit code is 1 if an engine or a plug-in cannot be used.
    """
    found = [_engine(announced) for announced in installed_engines()]
    plugins = _plugins()
    if as_json:
        print_json({"engines": found, "plugins": plugins})
    else:
        print_table(
            ("engine", "from", "rows", "seen by", "longest key", "durability", "can"),
            [(row["name"], _source(row), *_abilities(row)) for row in found],
        )
        if plugins:
            click.echo()
            print_table(
                ("plug-in", "from", "hooks"),
                [(row["name"], _source(row), ", ".join(row["hooks"]) or "none") for row in plugins],
            )
    errors = dict.fromkeys(row["error"] for row in (*found, *plugins) if row["error"])
    if not as_json:
        for error in errors:
            click.echo(f"kstore: {printable(error)}", err=True)
    if errors:
        ctx.exit(FINDINGS)


def _engine(announced: Announced) -> dict[str, Any]:
    row = asdict(announced)
    try:
        capabilities = engine_class(announced.name).capabilities
    except EngineUnavailableError as error:
        return {**row, "capabilities": None, "error": str(error)}
    return {**row, "capabilities": asdict(capabilities), "error": None}


def _plugins() -> list[dict[str, Any]]:
    installed = installed_plugins()
    _, errors = gather(tuple(plugin for plugin in installed if plugin.error is None), COMMANDS)
    return [
        {
            **asdict(plugin.announced),
            "hooks": plugin.hooks,
            "error": plugin.error or errors.get(plugin),
        }
        for plugin in installed
    ]


def _source(row: dict[str, Any]) -> str:
    return f"{row['distribution']} {row['version']}"


def _abilities(row: dict[str, Any]) -> tuple[str, ...]:
    """Return the capabilities of an engine as texts, in the order of the table's columns."""
    if row["capabilities"] is None:
        return ("cannot be loaded", "", "", "", "")
    can = Capabilities(**row["capabilities"])
    return (
        "on disk" if can.persistent else "in memory",
        "its process" if can.process_local else "any process",
        "any" if can.max_key_bytes is None else f"{can.max_key_bytes} bytes",
        ", ".join(can.durability),
        ", ".join(name.replace("_", " ") for name in _ABILITIES if getattr(can, name)),
    )
