"""The command ``kstore migrate``, which rewrites a store in another format, engine or shape."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from kstore_core.changelog import FileChangelog
from kstore_core.cli.commands.restore import log_of
from kstore_core.cli.describing import describe
from kstore_core.cli.output.printing import print_json
from kstore_core.cli.output.progress import Bar, UnfinishedError, show_progress
from kstore_core.cli.output.rendering import printable
from kstore_core.cli.overview import open_to_read, read_overview
from kstore_core.cli.parameters.options import json_option, path_argument, spec_options
from kstore_core.cli.parameters.places import refuse_shards
from kstore_core.cli.parameters.values import DIRECTORY
from kstore_core.errors import SpecError
from kstore_core.formats import named
from kstore_core.maintenance.migrate import Migrated, MigrateProgress, drop_old
from kstore_core.maintenance.migrate import migrate as migrate_store
from kstore_core.spec import StoredSpec, StoreSpec
from kstore_core.state.migration_note import moving
from kstore_core.stores import versioned_key_value

__all__ = ["migrate"]

_OF_HISTORY = ("history_retention_ms", "segment_interval_ms")


@click.command()
@path_argument
@click.argument("store")
@click.option(
    "--to", metavar="FORMAT", help="plain, timestamped, headers, or a format's full name."
)
@click.option("--engine", metavar="NAME", help="The new engine.")
@click.option("--all", "every_store", is_flag=True, help="Migrate all stores of the directory.")
@click.option(
    "--from-log",
    metavar="LOGDIR",
    type=DIRECTORY,
    help="Turn the key-value store into a versioned store, with the history in this changelog.",
)
@click.option(
    "--lossy",
    is_flag=True,
    help="Drop the headers and timestamps that the new format cannot store.",
)
@click.option("--drop-old", "drops", is_flag=True, help="Delete the old files of the store.")
@spec_options
@json_option
def migrate(
    path: Path,
    store: str,
    to: str | None,
    engine: str | None,
    every_store: bool,
    from_log: Path | None,
    lossy: bool,
    drops: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Rewrite STORE in another format or engine, and replace the old store.

    The new store is first written to a folder of PATH and compared with the old store row by row.
    Then the old store is moved to another folder of PATH, and the new store takes its place. The
    option --drop-old deletes the old store. If the command is interrupted, run it again. No other
    process, such as Kafka Streams, may have the directory open for writing.
    """
    refuse_shards(path)
    is_moving = bool(moving(path.resolve()))
    if drops and not is_moving and to is None and engine is None and from_log is None:
        if every_store or lossy:
            raise click.UsageError(
                "--all and --lossy need --to, --engine or --from-log. To delete the old files of "
                "an earlier migration of STORE, pass --drop-old alone"
            )
        dropped = drop_old(path, store)
        _print_dropped(path, store, dropped, as_json=as_json)
        return
    with ExitStack() as stack:
        given: dict[str, Any] = {"to": to}
        if not is_moving:
            given = _given(path, store, to, from_log, options, stack, every_store=every_store)
        show = stack.enter_context(show_progress(_bar))
        try:
            done = migrate_store(
                path,
                store,
                engine=engine,
                every_store=every_store,
                lossy=lossy,
                drop_old=drops,
                on_progress=show,
                **given,
            )
        except KeyboardInterrupt:
            raise UnfinishedError(
                f"interrupted; no row of the store {store!r} is lost. Run the same command again"
            ) from None
    if as_json:
        print_json({"path": str(path), "stores": [_document(one) for one in done]})
        return
    for one in done:
        click.echo(printable(_text(one)))


def _given(
    path: Path,
    store: str,
    to: str | None,
    from_log: Path | None,
    options: dict[str, Any],
    stack: ExitStack,
    *,
    every_store: bool,
) -> dict[str, Any]:
    """Return the arguments of the migration that depend on the stored specs and on the options."""
    into = options if from_log is None else {**options, **dict.fromkeys(_OF_HISTORY)}
    with open_to_read(path, None) as state:
        specs: list[StoreSpec] = []
        names = state.stores() if every_store and store in state.stores() else [store]
        for name in sorted(names, key=lambda name: name != store):
            view = read_overview(state, name)
            if view.record.spec is None:
                if from_log is not None:
                    into = {**into, "shape": into["shape"] or "key-value"}
                spec = describe(view, **into).spec
                specs.append(replace(spec, indexed=False))  # the migration detects an index
            elif name == store:
                describe(view, **into)  # refuses options that contradict the spec
        stored = read_overview(state, store).record.spec
    if from_log is None:
        return {"to": to, "spec": specs}
    topic, partition = log_of(from_log, store, path, "--from-log")
    root = from_log if from_log.name != f"{topic}-{partition}" else from_log.parent
    log = stack.enter_context(FileChangelog(root, topic, partition, read_only=True))
    return {"to": _versioned(store, to, options, stored), "from_log": log, "spec": specs}


def _versioned(
    store: str, to: str | None, options: Mapping[str, Any], stored: StoredSpec | None
) -> StoreSpec:
    """Return the spec of the versioned store that is made from a changelog.

    Raises
    ------
    SpecError
        The options have no retention of the history.
    """
    retention, interval = map(options.get, _OF_HISTORY)
    if retention is None:
        raise SpecError(
            "a versioned store needs a history retention. Add --history-retention, such as 30d. "
            "Add --segment-interval if the interval must differ from Kafka's default"
        )
    spec = versioned_key_value(store, retention, interval)
    spec = replace(spec, format=named(to or "versioned", spec.family))
    if stored is None:
        return spec
    serdes_of = stored.of_bytes()
    return replace(spec, key=serdes_of.key, value=serdes_of.value)


def _bar(progress: MigrateProgress) -> Bar:
    name = f"{progress.step} {progress.store}"
    line = f"{name}: {progress.rows} of about {progress.total} rows"
    return Bar(name, progress.rows, progress.total, line if progress.total else name)


def _print_dropped(path: Path, store: str, dropped: bool, *, as_json: bool) -> None:
    if as_json:
        print_json({"path": str(path), "store": store, "dropped": dropped})
    elif dropped:
        click.echo(f"{store}: deleted the old files")
    else:
        click.echo(f"{printable(store)}: there are no old files")


def _document(done: Migrated) -> dict[str, Any]:
    return {
        "store": done.store,
        "changed": done.changed,
        "before": done.before and done.before.name,
        "format": done.after and done.after.name,
        "engine_before": done.engine_before,
        "engine": done.engine,
        "rows": done.rows,
        "lost": done.lost._asdict(),
        "late": done.late,
        "differing": done.differing,
        "old": done.old and str(done.old),
    }


def _text(done: Migrated) -> str:
    """Return a text that describes the result for a store."""
    if not done.changed:
        return f"{done.store} already has that format and engine; nothing was changed"
    if done.before is None or done.after is None:
        parts = [f"{done.store}: finished the migration of an earlier run"]
    else:
        rows = f"{done.rows} row{'s' * (done.rows != 1)}"
        parts = [f"{done.store} is {done.after.name} on {done.engine} now: {rows}"]
    if any(done.lost):
        headers, headed, timestamps = done.lost
        parts.append(f"without {headers} headers of {headed} values and {timestamps} timestamps")
    if done.late:
        parts.append(f"{done.late} records were too late")
    if done.differing:
        parts.append(f"{done.differing} keys now have a different newest value")
    if done.old is not None:
        parts.append(f"the old store is in {done.old}")
    return "; ".join(parts)
