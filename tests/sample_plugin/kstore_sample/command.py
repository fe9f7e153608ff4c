"""``kstore count``: a command that a plug-in adds."""

from __future__ import annotations

from pathlib import Path

import click

from kstore_core import open_state


@click.command()
@click.argument("path", type=click.Path(exists=True, file_okay=False, path_type=Path))
def count(path: Path) -> None:
    """Print how many keys each store in PATH has."""
    with open_state(path, read_only=True) as state:
        for name in state.stores():
            described = state.stored_spec(name)
            if described is not None:
                keys = sum(1 for _ in state.open(described.spec()).all())
                click.echo(f"{name} {keys}")
