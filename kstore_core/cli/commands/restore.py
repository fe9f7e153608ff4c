"""The command ``kstore restore``, which restores a store from its changelog in files or Kafka."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from kstore_core.changelog import FileChangelog, KafkaChangelog
from kstore_core.changelog.files.directory import (
    is_topic_of,
    log_at,
    logs_of,
    other_store,
    partition_of,
)
from kstore_core.cli.describing import describe, described_by_options, flag
from kstore_core.cli.output.exit_codes import NotFoundError
from kstore_core.cli.output.printing import print_json
from kstore_core.cli.output.progress import Bar, UnfinishedError, show_progress
from kstore_core.cli.output.rendering import printable
from kstore_core.cli.overview import Overview, read_overview
from kstore_core.cli.parameters.brokers import LOG, Brokers, client_settings, open_topic
from kstore_core.cli.parameters.options import engine_option, json_option, spec_options
from kstore_core.cli.parameters.values import NEW_DIRECTORY
from kstore_core.discovery.registry import make_engine
from kstore_core.errors import SpecError, UnsupportedError
from kstore_core.restore.replay import RestoreProgress
from kstore_core.restore.rows import Restored
from kstore_core.spec import StoreSpec
from kstore_core.state import open_state

__all__ = ["log_of", "restore"]


@click.command()
@click.argument("path", type=NEW_DIRECTORY)
@click.argument("store")
@click.option(
    "--from",
    "source",
    required=True,
    metavar="LOG",
    type=LOG,
    help="The directory <topic>-<partition> of a log, or the directory that contains it. For a "
    "log in Kafka: kafka://HOST:PORT[,HOST:PORT][/TOPIC].",
)
@click.option(
    "--kafka-config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A file of client settings, one name=value per line: security.protocol, sasl.username, …",
)
@click.option(
    "--any-topic",
    is_flag=True,
    help="Restore from the named LOG even if its topic does not end in -STORE-changelog.",
)
@spec_options
@engine_option
@json_option
def restore(
    path: Path,
    store: str,
    source: Path | Brokers,
    kafka_config: Path | None,
    any_topic: bool,
    engine: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Bring STORE up to date with its changelog, or rebuild STORE from the changelog.

    No other process may have the directory open for writing. The command may be interrupted at any
    time. Each batch of rows is committed together with its offset, so the next run continues after
    the last committed batch.
    """
    with _open_log(source, kafka_config, store, path, any_topic=any_topic) as log:
        topic, partition = log.topic, log.partition
        new = not path.is_dir()
        if new:
            _refuse_unreadable(log)
        if new and engine is None:
            raise SpecError(
                f"there is no state directory {path}; to make a new state directory, name its "
                "engine with --engine"
            )
        if new:
            _new(store, options)  # wrong options must be found before the directory is made
        if engine is not None and not make_engine(engine).capabilities.persistent:
            raise UnsupportedError(
                f"the engine {engine!r} stores nothing on disk, so the restored rows would be lost "
                "at the end of this command; name another engine"
            )
        with open_state(path, engine=engine) as state, show_progress(_bar) as show:
            known = store in state.stores()
            spec = _known(read_overview(state, store), options) if known else _new(store, options)
            try:
                done = state.restore(spec, log, listener=show)
            except KeyboardInterrupt:
                raise UnfinishedError(
                    "interrupted; the rows restored so far are committed. Run the same "
                    "command again to continue"
                ) from None
            offset = state.offsets(store).get((topic, partition))
        if offset is None:
            _refuse_unreadable(log)
    if as_json:
        print_json(_document(path, store, topic, partition, offset, done))
    elif offset is None:
        click.echo(printable(f"{store}: the log {topic}-{partition} is empty"))
    else:
        late = f", {done.late} of them too late" if done.late else ""
        said = f"{store} contains {topic}-{partition} up to offset {offset}"
        click.echo(printable(f"{said}: restored {done.records} records{late}"))
        click.echo(printable(f"input: {_input_of(done)}"))


def _open_log(
    source: Path | Brokers, kafka_config: Path | None, store: str, path: Path, *, any_topic: bool
) -> FileChangelog | KafkaChangelog:
    """Open the requested log for reading.

    Raises
    ------
    NotFoundError
        There is no such log, or there are several.
    SpecError
        The named log belongs to another store.
    """
    if isinstance(source, Brokers):
        if source.topic and not any_topic:
            _refuse_another(source.topic, store)
        return open_topic(source, client_settings(kafka_config), store, path)
    if kafka_config is not None:
        raise SpecError(
            f"--kafka-config is for a log in Kafka, but {source} is a directory; leave the option "
            "out"
        )
    topic, partition = log_of(source, store, path)
    if not any_topic:
        _refuse_another(topic, store)
    root = source if source.name != f"{topic}-{partition}" else source.parent
    return FileChangelog(root, topic, partition, read_only=True)


def _refuse_unreadable(log: FileChangelog | KafkaChangelog) -> None:
    """Refuse a log that has bytes but no complete batch, because such a log is not empty.

    Raises
    ------
    NotFoundError
        The log has only a part of its first write.
    InconsistentStateError, CorruptionError
        See `FileChangelog.start_offset`.
    """
    if not isinstance(log, FileChangelog) or log.high_watermark > log.start_offset:
        return
    if rest := log.rest:
        raise NotFoundError(
            f"{log.path} has no whole batch, but {rest}, so it has no records to restore. If "
            "records were written to the log, put back an undamaged copy of its files, and run the "
            "command again"
        )


def _refuse_another(topic: str, store: str) -> None:
    """Refuse a topic whose name is not the name of a changelog of the store."""
    if not is_topic_of(topic, store):
        raise SpecError(
            f"{topic} does not have the name of a changelog of the store {store!r}. Such a name "
            f"ends in -{store}-changelog. Name the changelog of the store, or add --any-topic if "
            f"{topic} is its changelog"
        )


def log_of(source: Path, store: str, path: Path, option: str = "--from") -> tuple[str, int]:
    """Return the topic and the partition of the requested log. Errors name the ``option``.

    Raises
    ------
    NotFoundError
        There is no such log, there are several, or the log may belong to another store.
    """
    named = log_at(source.resolve())
    if named is not None and any(source.glob("*.log")):
        return named
    application, task = path.resolve().parent.name, partition_of(path.resolve())
    mine = logs_of(source, store, application, task)
    if len(mine) != 1:
        there = mine or logs_of(source, store, application)
        names = ", ".join(f"{topic}-{partition}" for topic, partition in there)
        several = "several logs" if mine else "no log"
        of = f"the partition {task} of a store" if names and not mine else "a store"
        raise NotFoundError(
            f"{source} has {several} of {of} {store!r}"
            + (f" (found: {names})" if names else "")
            + f"; name a log with {option}"
        )
    topic, partition = mine[0]
    other = other_store(topic, store, application)
    if other is not None:
        raise NotFoundError(
            f"the name of {topic}-{partition} in {source} fits the store {store!r} and also the "
            f"store {other!r}. If the log belongs to {store!r}, pass its directory: "
            f"{option} {source / f'{topic}-{partition}'}"
        )
    return mine[0]


def _known(view: Overview, options: dict[str, Any]) -> StoreSpec:
    """Return the stored spec, or else the spec from the options and the rows.

    Raises
    ------
    SpecError
        The store has no stored spec, and the options do not describe the store. Or the store has a
        stored spec, and an option also describes the store. Or the rows do not fit the spec.
    """
    store, stored = view.name, view.record.spec
    given = [name for name, value in options.items() if value]
    if stored is not None:
        if given:
            flags = ", ".join(map(flag, given))
            raise SpecError(
                f"the store {store!r} has a stored spec, so options that describe the store are "
                f"not allowed; leave out {flags}"
            )
        return stored.of_bytes()
    described = describe(view, **options)
    if described.numbered:
        raise SpecError(
            f"the rows of the store {store!r} have sequence numbers, so the store retains "
            "duplicates; add --retain-duplicates"
        )
    if described.unindexed:
        raise SpecError(f"the store {store!r} has no index by key; add --without-index")
    return described.spec


def _new(store: str, options: dict[str, Any]) -> StoreSpec:
    """Return the spec from the options.

    Raises
    ------
    SpecError
        The options are incomplete, or contradict each other.
    """
    if options["shape"] is None:
        raise SpecError(
            f"the store {store!r} has no stored spec. Add --shape and the options of that shape, "
            "such as --format, --retention, --window-size and --segment-interval, with the values "
            "that the writer used"
        )
    return described_by_options(store, options)


def _input_of(done: Restored) -> str:
    """Return a text with the input offsets in the log.

    The process that writes to the store next must continue its input after these offsets.
    """
    if not done.offsets:
        return "unknown, because the log does not contain them"
    return ", ".join(
        f"{topic}-{number} up to offset {at}"
        for (topic, number), at in sorted(done.offsets.items())
    )


def _document(
    path: Path, store: str, topic: str, partition: int, offset: int | None, done: Restored
) -> dict[str, Any]:
    return {
        "path": str(path),
        "store": store,
        "topic": topic,
        "partition": partition,
        "offset": offset,
        "records": done.records,
        "late": done.late,
        "rows": done.rows,
        "input": None
        if done.offsets is None
        else [
            {"topic": topic, "partition": number, "offset": at}
            for (topic, number), at in sorted(done.offsets.items())
        ],
    }


def _bar(progress: RestoreProgress) -> Bar:
    name = f"{progress.topic}-{progress.partition}"
    return Bar(
        name,
        progress.next_offset - progress.begin,
        progress.end - progress.begin,
        f"{name}: {progress.records} records, up to offset {progress.next_offset} of "
        f"{progress.end}",
    )
