"""``kstore engines``: what is installed, and whether it can be loaded."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from kstore_core.cli.errors import FINDINGS
from kstore_core.cli.options import json_option
from kstore_core.cli.output import print_json, print_table
from kstore_core.errors import EngineUnavailableError
from kstore_core.registry import engine_class, installed_engines

__all__ = ["engines"]


@click.command()
@json_option
@click.pass_context
def engines(ctx: click.Context, as_json: bool) -> None:
    """List the storage engines that are installed.

    Exit code 1 if one of them cannot be loaded.
    """
    found = []
    for engine in installed_engines():
        row: dict[str, Any] = asdict(engine)
        try:
            row["capabilities"] = asdict(engine_class(engine.name).capabilities)
            row["error"] = None
        except EngineUnavailableError as error:
            row["capabilities"] = None
            row["error"] = str(error)
        found.append(row)
    if as_json:
        print_json({"engines": found})
    else:
        print_table(
            ("engine", "from", "keeps its rows", "longest key"),
            [(row["name"], f"{row['distribution']} {row['version']}", *_can(row)) for row in found],
        )
        for row in found:
            if row["error"]:
                click.echo(f"kstore: {row['error']}", err=True)
    if any(row["error"] for row in found):
        ctx.exit(FINDINGS)


def _can(row: dict[str, Any]) -> tuple[str, str]:
    can = row["capabilities"]
    if can is None:
        return "cannot be loaded", ""
    longest = "" if can["max_key_bytes"] is None else f"{can['max_key_bytes']} bytes"
    return "on disk" if can["persistent"] else "in memory", longest
