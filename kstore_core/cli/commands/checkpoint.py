"""The command ``kstore checkpoint``, which makes a consistent copy of a state directory."""

from __future__ import annotations

from pathlib import Path

import click

from kstore_core.cli.output.printing import print_json
from kstore_core.cli.output.rendering import printable
from kstore_core.cli.overview import open_to_read
from kstore_core.cli.parameters.options import engine_option, json_option, path_argument
from kstore_core.cli.parameters.values import NEW_DIRECTORY

__all__ = ["checkpoint"]


@click.command()
@path_argument
@click.argument("dest", type=NEW_DIRECTORY)
@engine_option
@json_option
def checkpoint(path: Path, dest: Path, engine: str | None, as_json: bool) -> None:
    """Copy the committed rows of all stores of PATH to the new state directory DEST.

    Another process may write to PATH at the same time; all stores of DEST then have the rows of the
    same commit. DEST is made only when the copy is complete.
    """
    with open_to_read(path, engine) as state:
        names, name = state.checkpoint(dest), state.engine.name
    if as_json:
        print_json({"path": str(path), "copy": str(dest), "engine": name, "stores": names})
    else:
        click.echo(printable(f"copied {', '.join(names) or 'no store'} to {dest}"))
