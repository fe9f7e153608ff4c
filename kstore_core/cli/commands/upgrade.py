"""The command ``kstore upgrade``, which converts all rows of a store to a newer format."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import click

from kstore_core.cli.describing import describe
from kstore_core.cli.output.printing import print_json
from kstore_core.cli.output.progress import Bar, UnfinishedError, show_progress
from kstore_core.cli.overview import open_to_read, read_overview
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
"""The options that are passed to the upgrade unchanged. All other options describe the store."""


@click.command()
@path_argument
@click.argument("store")
@click.option(
    "--to",
    metavar="FORMAT",
    help="plain, timestamped, headers, or the full name of a format. Default: the newest format.",
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
    """Convert the rows of STORE that have an older format to a newer format.

    No other process may have the directory open for writing. If the command is interrupted, no row
    is lost, and the next run continues.
    """
    refuse_shards(path)
    shape, time_ordered = options["shape"], options["time_ordered"]
    value_format = None
    if any(value for name, value in options.items() if name not in _ENOUGH):
        with open_to_read(path, engine) as state:
            value_format = describe(read_overview(state, store), **options).spec.format
    moved = 0
    with show_progress(_bar) as show:

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
                f"interrupted after {moved} rows; no row of the store {store!r} is lost. Run the "
                "same command again"
            ) from None
    if as_json:
        print_json(_document(path, done))
    else:
        click.echo(_text(done))


def _document(path: Path, done: Upgraded) -> dict[str, Any]:
    return {
        "path": str(path),
        "store": done.store,
        "before": done.before.name,
        "format": done.format.name,
        "moved": done.moved,
        "dropped": done.dropped,
    }


def _text(done: Upgraded) -> str:
    """Return a text that describes the result."""
    rows = ", ".join(f"{count} rows of the format {name}" for name, count in done.moved.items())
    if not rows and done.before == done.format:
        return f"{done.store} already has the format {done.format.name}; no row had to be moved"
    moved = f"moved {rows}" if rows else "no row had to be moved"
    dropped = f"; dropped {', '.join(done.dropped)}" if done.dropped else ""
    return f"{done.store} now has the format {done.format.name}: {moved}{dropped}"


def _bar(progress: Progress) -> Bar:
    name = f"{progress.older} → {progress.newer}"
    line = f"{name}: {progress.moved} of about {progress.total} rows"
    return Bar(name, progress.moved, progress.total, line)
