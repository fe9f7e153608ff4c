"""``kstore upgrade``: the rest of an upgrade, at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import click

from kstore_core.cli.describing import describe
from kstore_core.cli.looking import look, open_to_read
from kstore_core.cli.output.printing import print_json
from kstore_core.cli.output.progress import Bar, UnfinishedError, shown
from kstore_core.cli.parameters.options import (
    engine_option,
    json_option,
    path_argument,
    spec_options,
)
from kstore_core.cli.parameters.places import refuse_shards
from kstore_core.maintenance.finish_upgrade.finishing import Progress, Upgraded
from kstore_core.maintenance.finish_upgrade.finishing import upgrade as upgrade_store
from kstore_core.spec import Shape

__all__ = ["upgrade"]

_ENOUGH = ("shape", "time_ordered")
"""An upgrade needs no more than these; where more is described, it has to be what the store is."""


@click.command()
@path_argument
@click.argument("store")
@click.option(
    "--to",
    metavar="FORMAT",
    help="plain, timestamped, headers, or a format's full name; the newest if left out.",
)
@spec_options
@engine_option
@json_option
def upgrade(
    path: Path,
    store: str,
    to: str | None,
    engine: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Move every row of STORE that is still in an older format to a newer one.

    Nothing else may have the directory open for writing. It may be interrupted anywhere: the store
    is whole at every moment, and the next run goes on.
    """
    refuse_shards(path)
    shape, time_ordered = options["shape"], options["time_ordered"]
    value_format = None
    if any(value for name, value in options.items() if name not in _ENOUGH):
        with open_to_read(path, engine) as state:
            value_format = describe(look(state, store), **options).spec.format
    moved = 0
    with shown(_bar) as show:

        def note(progress: Progress) -> None:
            nonlocal moved
            moved = progress.moved
            show(progress)

        try:
            done = upgrade_store(
                path,
                store,
                to,
                shape=cast("Shape | None", shape and shape.replace("-", "_")),
                time_ordered=time_ordered or None,
                value_format=value_format,
                engine=engine,
                progress=note,
            )
        except KeyboardInterrupt:
            raise UnfinishedError(
                f"interrupted when {moved} rows were moved; the store {store!r} is whole. "
                "The same command goes on"
            ) from None
    if as_json:
        print_json(_document(path, done))
    else:
        click.echo(_said(done))


def _document(path: Path, done: Upgraded) -> dict[str, Any]:
    return {
        "path": str(path),
        "store": done.store,
        "before": done.before.name,
        "format": done.format.name,
        "moved": done.moved,
        "dropped": done.dropped,
    }


def _said(done: Upgraded) -> str:
    """The result for the store, as text."""
    rows = ", ".join(f"{count} rows of the format {name}" for name, count in done.moved.items())
    if not rows and done.before == done.format:
        return f"{done.store} is {done.format.name} already; no row had to be moved"
    moved = f"moved {rows}" if rows else "there was no row to move"
    dropped = f"; dropped {', '.join(done.dropped)}" if done.dropped else ""
    return f"{done.store} is {done.format.name} now: {moved}{dropped}"


def _bar(progress: Progress) -> Bar:
    name = f"{progress.older} → {progress.newer}"
    said = f"{name}: {progress.moved} of about {progress.total} rows"
    return Bar(name, progress.moved, progress.total, said)
