"""The command ``kstore rescale``, which moves stores to another number of shards or tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import click

from kstore_core.cli.describing import describe
from kstore_core.cli.output.printing import print_json
from kstore_core.cli.output.progress import Bar, show_progress
from kstore_core.cli.output.rendering import printable
from kstore_core.cli.overview import Overview, open_to_read, read_overview
from kstore_core.cli.parameters.options import json_option, spec_options
from kstore_core.cli.parameters.places import is_root, refuse_shards
from kstore_core.errors import SpecError
from kstore_core.maintenance.migrate import MigrateProgress
from kstore_core.maintenance.rescale import rescale_tasks
from kstore_core.maintenance.rescale.tasks import Tasks, find_tasks, task_names
from kstore_core.spec import StoreSpec

__all__ = ["rescale"]


class _Setting(click.ParamType[tuple[str, str]]):
    """The parameter type of an option of an object store, ``NAME=VALUE``."""

    name = "setting"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        name, equals, setting = str(value).partition("=")
        if not (name and equals):
            self.fail(f"{value!r} is not NAME=VALUE, such as region=eu-central-1", param, ctx)
        return name, setting


@click.command()
@click.argument("root")
@click.option(
    "--partitions",
    type=click.IntRange(min=1),
    required=True,
    help="The new number of shards or tasks.",
)
@click.option(
    "--store",
    metavar="NAME",
    help="The map_state state to rescale. Needed if ROOT also has versions or has several states. "
    "With --to: the only store to write.",
)
@click.option(
    "--storage",
    type=_Setting(),
    multiple=True,
    metavar="NAME=VALUE",
    help="An option of the object store of ROOT. May be repeated.",
)
@click.option(
    "--to",
    "target",
    metavar="TARGET",
    type=click.Path(path_type=Path),
    help="The new directory for the tasks of an application.",
)
@click.option(
    "--tasks",
    type=click.IntRange(min=1),
    help="With --to: the number of tasks that ROOT must have.",
)
@click.option(
    "--subtopology",
    metavar="NAME",
    help="With --to: the sub-topology, such as 0. Needed if several sub-topologies have stores.",
)
@click.option(
    "--keep-offsets",
    is_flag=True,
    help="With --to: keep input offsets. The input topics must keep their partitions and records.",
)
@spec_options
@json_option
def rescale(
    root: str,
    partitions: int,
    store: str | None,
    storage: tuple[tuple[str, str], ...],
    target: Path | None,
    tasks: int | None,
    subtopology: str | None,
    keep_offsets: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Move the rows of stores to another number of shards or tasks.

    ROOT is a directory or an address that write_store of kstore_core.spark wrote, or the root of a
    state of map_state. The query of this state must be stopped. The command runs a Spark job on
    this machine. For a store of write_store it publishes a new version, and earlier versions stay
    readable.

    With --to, ROOT is the directory state.dir/application.id of a stopped application of Kafka
    Streams, with the task directories 0_0, 0_1 and so on. The command writes the new task
    directories to TARGET, without Spark. ROOT stays unchanged.
    """
    described = {name: value for name, value in options.items() if value not in (None, False)}
    if target is None:
        if tasks or subtopology or keep_offsets or described:
            raise click.UsageError(
                "the options --tasks, --subtopology, --keep-offsets and those that describe a "
                "store apply only to task directories; add --to TARGET, or leave them out"
            )
        if "://" not in root and not is_root(Path(root)) and task_names(Path(root)):
            raise click.UsageError(
                f"{root} has the task directories of an application. Add --to TARGET, where TARGET "
                "is a new directory"
            )
        _rescale_root(root, partitions, store, dict(storage), as_json=as_json)
        return
    if storage:
        raise click.UsageError("--storage does not apply with --to; leave it out")
    path = Path(root).resolve()
    refuse_shards(path)
    found = find_tasks(path, subtopology, tasks)
    specs = _specs(found, store, described)
    with show_progress(_bar) as show:
        done = rescale_tasks(
            path,
            target,
            partitions=partitions,
            store=store,
            spec=specs,
            subtopology=found.topology,
            tasks=tasks,
            keep_offsets=keep_offsets,
            on_progress=show,
        )
    if as_json:
        stores = [{"store": one.store, "rows": one.rows} for one in done]
        before = len(found.directories)
        print_json({"root": root, "target": str(target), "before": before,
                    "partitions": partitions, "stores": stores})  # fmt: skip
        return
    for one in done:
        rows, old, new = (
            f"{count} {noun}{'s' * (count != 1)}"
            for count, noun in ((one.rows, "row"), (one.before, "task"), (partitions, "task"))
        )
        click.echo(printable(f"{one.store}: moved {rows} of {old} to {new} in {target}"))


def _rescale_root(
    root: str, partitions: int, store: str | None, storage: dict[str, str], *, as_json: bool
) -> None:
    """Rescale a root of Spark, and print the result."""
    from kstore_core.spark.rescale.rescale import rescale as rescale_store

    done = rescale_store(root, partitions=partitions, store=store, storage_options=storage or None)
    if as_json:
        print_json({"root": root, **asdict(done)})
        return
    place = f"in {done.path}" if done.version is None else f"in version {done.version}"
    moved = f"{done.rows} row{'s' * (done.rows != 1)} of {done.before} shards"
    click.echo(printable(f"{done.store}: moved {moved} to {done.partitions} shards {place}"))


def _specs(tasks: Tasks, store: str | None, options: Mapping[str, Any]) -> list[StoreSpec]:
    """Return the specs of the stores that have no stored spec.

    If there are several stores, the options describe only the stores that the directory does not
    describe completely.
    """
    names = [name for name in tasks.stores if store in (None, name)]
    specs: list[StoreSpec] = []
    needed = False
    for name in names:
        views = _views(tasks, name)
        view = next((one for one in views if one.first), views[0])
        try:
            spec = describe(view, **(options if len(names) == 1 else {})).spec
            needed = needed or len(names) == 1
        except SpecError:
            if not options or len(names) == 1:
                raise
            spec, needed = describe(view, **options).spec, True
        if any(one.record.spec is None for one in views):
            specs.append(replace(spec, indexed=False))  # rescale_tasks detects an index
    if names and options and not needed:
        raise click.UsageError(
            f"the directory describes its stores {', '.join(names)}; leave out --shape and the "
            "other options that describe a store, or pass --store"
        )
    return specs


def _views(tasks: Tasks, store: str) -> list[Overview]:
    views = []
    for directory in tasks.directories:
        with open_to_read(directory, tasks.engine.name) as state:
            views.append(read_overview(state, store))
    return views


def _bar(progress: MigrateProgress) -> Bar:
    name = f"{progress.step} {progress.store}"
    line = f"{name}: {progress.rows} of about {progress.total} rows in this task"
    return Bar(name, progress.rows, progress.total, line if progress.total else name)
